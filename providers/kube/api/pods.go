package api

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// machine is a pod as an Instance, with the data of its notices.
type machine struct {
	provisioner.Instance
	run, owner string
	uid        types.UID
	expires    time.Time
	node       string                // that it is bound to; empty = it is waiting
	deleted    time.Time             // when it will be gone; zero = no deletion was requested
	disrupted  string                // why the cluster takes it back; empty = it does not
	gated      bool                  // until its launch is complete
	owned      metav1.OwnerReference // by the run's ConfigMap
}

// read converts a pod. It is a pure function: what only earlier lists showed is in memory.
func (c *Cloud) read(pod *corev1.Pod) machine {
	n, pool := readNote(pod.Annotations[noteRequest])
	m := machine{uid: pod.UID, run: pod.Annotations[noteRun], owner: pod.Annotations[noteOwner], node: pod.Spec.NodeName, disrupted: disruption(pod),
		Instance: provisioner.Instance{ID: provisioner.InstanceID(pod.Name), Pool: pool, Token: n.Token, Tags: n.Tags,
			Launched: wholeSeconds(pod.CreationTimestamp.Time), State: provisioner.Pending, Reason: waiting(pod)}}
	m.expires, _ = time.Parse(time.RFC3339, pod.Annotations[noteExpires]) // zero where it was edited
	m.gated = slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == gateLaunch })
	if len(pod.OwnerReferences) == 1 {
		m.owned = pod.OwnerReferences[0]
	}
	if pod.DeletionTimestamp != nil {
		m.deleted = pod.DeletionTimestamp.UTC()
	}
	switch phase := pod.Status.Phase; {
	case phase == corev1.PodSucceeded || phase == corev1.PodFailed:
		m.end(pod)
	case !m.deleted.IsZero():
		m.State = provisioner.Stopping
	case phase == corev1.PodRunning:
		m.State = provisioner.Running
	}
	return m
}

// waiting returns why a pod is not bound to a node yet; empty = it is not waiting.
func waiting(pod *corev1.Pod) string {
	if len(pod.Spec.SchedulingGates) > 0 {
		return "waits for " + pod.Spec.SchedulingGates[0].Name
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return strings.TrimSpace(condition.Reason + ": " + condition.Message)
		}
	}
	return ""
}

// disruption returns why the cluster ends a pod, from the conditions that it sets beforehand
// (https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions); Kueue has its own
// condition.
func disruption(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && (condition.Type == corev1.DisruptionTarget || condition.Type == "TerminationTarget") {
			return strings.TrimSpace(condition.Reason + ": " + condition.Message)
		}
	}
	return ""
}

// end reads the end of a pod whose containers have ended.
func (m *machine) end(pod *corev1.Pod) {
	m.State, m.EndedBy = provisioner.Terminated, market.ByUser
	var finished time.Time
	how := ""
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			finished, how = t.FinishedAt.Time, fmt.Sprintf("its program ended with code %d (%s)", t.ExitCode, t.Reason)
		}
	}
	m.Ended = m.after(finished)
	switch reason := pod.Status.Reason; {
	case m.disrupted != "":
		m.EndedBy, m.Reason = market.ByProvider, m.disrupted
	case reason == "DeadlineExceeded": // activeDeadlineSeconds, which is the run's own
		m.Reason = "DeadlineExceeded: the run's longest duration is over"
	case reason != "": // a node that was shut down, lost, or ran out of something
		m.EndedBy, m.Reason = market.ByProvider, strings.TrimSpace(reason+": "+pod.Status.Message)
	default:
		m.Reason = cmp.Or(how, "it has "+strings.ToLower(string(pod.Status.Phase)))
	}
}

// after keeps times in order; zero stays zero.
func (m *machine) after(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	if t = wholeSeconds(t); t.Before(m.Launched) {
		return m.Launched
	}
	return t
}

// gone returns the end of a pod that is no longer listed.
func (m machine) gone(asked bool, now time.Time) machine {
	m.State, m.Ended = provisioner.Terminated, m.after(now)
	switch {
	case asked:
		m.EndedBy, m.Reason = market.ByUser, "terminated by its run"
	case m.disrupted != "":
		m.EndedBy, m.Reason = market.ByProvider, m.disrupted
	case !m.deleted.IsZero():
		m.EndedBy, m.Reason = market.ByUser, "deleted, and not by its run"
	default:
		m.EndedBy, m.Reason = market.ByProvider, "the pod is gone"
	}
	return m
}

// impending are the taints of nodes that will be removed, by key.
var impending = []string{
	"karpenter.sh/disrupted", "karpenter.sh/disruption",
	"cloud.google.com/impending-node-termination",
	"aws-node-termination-handler/spot-itn", "aws-node-termination-handler/asg-lifecycle-termination", "aws-node-termination-handler/scheduled-maintenance",
	"ToBeDeletedByClusterAutoscaler",
	corev1.TaintNodeOutOfService,
}

// doomed reports whether a node will be removed soon.
func doomed(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return slices.Contains(impending, t.Key) })
}
