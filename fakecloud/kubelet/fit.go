package kubelet

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file does a scheduler's work, as far as pods of one container need it.

// bind puts a pod on this node, like the scheduler; of several nodes the API server lets one.
func (k *Kubelet) bind(ctx context.Context, pod *corev1.Pod) error {
	return k.config.Client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: k.config.Node},
	}, metav1.CreateOptions{})
}

// free returns the node's free resources.
func (k *Kubelet) free(node *corev1.Node, pods []corev1.Pod) corev1.ResourceList {
	left := node.Status.Allocatable.DeepCopy()
	for i := range pods {
		if p := &pods[i]; p.Spec.NodeName == k.config.Node && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			take(left, p)
		}
	}
	return left
}

func take(left corev1.ResourceList, pod *corev1.Pod) {
	for _, c := range pod.Spec.Containers {
		for name, want := range c.Resources.Requests {
			have := left[name]
			have.Sub(want)
			left[name] = have
		}
	}
}

// fits reports whether a pod may run here: it is not gated, the node has room and the selected labels, and it tolerates the taints.
func (k *Kubelet) fits(node *corev1.Node, pod *corev1.Pod, left corev1.ResourceList) bool {
	if len(pod.Spec.SchedulingGates) > 0 || pod.DeletionTimestamp != nil || node.Spec.Unschedulable {
		return false
	}
	for _, c := range pod.Spec.Containers {
		for name, want := range c.Resources.Requests {
			if have := left[name]; have.Cmp(want) < 0 {
				return false
			}
		}
	}
	for key, value := range pod.Spec.NodeSelector {
		if node.Labels[key] != value {
			return false
		}
	}
	return selects(pod.Spec.Affinity, node.Labels) && bears(pod.Spec.Tolerations, node.Spec.Taints)
}

func selects(a *corev1.Affinity, labels map[string]string) bool {
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return slices.ContainsFunc(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return !meets(r, labels) })
	})
}

func meets(r corev1.NodeSelectorRequirement, labels map[string]string) bool {
	value, has := labels[r.Key]
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return has && slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpExists:
		return has
	case corev1.NodeSelectorOpDoesNotExist:
		return !has
	}
	return false // comparisons of numbers are not used here
}

func bears(tolerations []corev1.Toleration, taints []corev1.Taint) bool {
	return !slices.ContainsFunc(taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(tolerations, func(o corev1.Toleration) bool {
			return (o.Effect == "" || o.Effect == t.Effect) && (o.Key == t.Key && (o.Operator == corev1.TolerationOpExists || o.Value == t.Value) ||
				o.Key == "" && o.Operator == corev1.TolerationOpExists)
		})
	})
}
