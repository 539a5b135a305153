package api

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tierml/tierml/internal/cloudname"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// How Kueue recognises pods to admit together:
// https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/#running-a-group-of-pods-to-be-admitted-together
const (
	labelQueue     = "kueue.x-k8s.io/queue-name"
	labelGroup     = "kueue.x-k8s.io/pod-group-name"
	noteGroupCount = "kueue.x-k8s.io/pod-group-total-count"
	// noteRetriable is "false" where no pods may follow once all of a group have ended: Kueue then ends it, and frees its quota.
	noteRetriable = "kueue.x-k8s.io/retriable-in-group"
)

// A launch is a group. Kueue keeps quota for all its pods until the last has ended, including failed ones; so a later
// launch of like pods first uses their places. It joins only a group that another pod keeps alive: Kueue does not admit
// pods to a group that has ended.

// place is a slot in which a pod is admitted.
type place struct {
	group string
	count int // pods of the group
}

// group is one of Kueue's groups, as its pods show it.
type group struct {
	place
	shape   string
	taken   int // places of pods that have not failed
	lasting int // pods of other launches that are not known to end
	going   int // those that will end soon
	own     []*corev1.Pod
}

// shape returns what Kueue compares when it groups pods.
func shape(p *corev1.Pod) string {
	s := p.Spec
	text, err := json.Marshal([]any{s.Containers[0].Resources, s.NodeSelector, s.Affinity, s.Tolerations, s.RuntimeClassName, s.PriorityClassName, s.TopologySpreadConstraints})
	if err != nil {
		panic(err) // it can always be marshalled
	}
	return cloudname.Digest(12, string(text))
}

// join puts a pod into a group.
func join(p *corev1.Pod, at place) {
	p.Labels[labelGroup], p.Annotations[noteGroupCount] = at.group, strconv.Itoa(at.count)
}

// groups returns the groups of the run's pods, by name. Own pods are the request's.
func (c *Cloud) groups(ctx context.Context, r provisioner.Request) ([]*group, error) {
	list, err := c.config.Client.Pods(c.config.Namespace).List(ctx, metav1.ListOptions{LabelSelector: c.selector() + "," + labelGroup})
	if err != nil {
		return nil, err
	}
	var all []*group
	for i := range list.Items {
		pod := &list.Items[i]
		m := c.read(pod)
		if m.Token == "" {
			continue
		}
		m = c.seen.note(m)
		at := slices.IndexFunc(all, func(g *group) bool { return g.group == pod.Labels[labelGroup] })
		if at < 0 {
			count, _ := strconv.Atoi(pod.Annotations[noteGroupCount]) // Kueue has checked it
			at, all = len(all), append(all, &group{place: place{pod.Labels[labelGroup], count}, shape: pod.Annotations[noteShape]})
		}
		all[at].take(pod, m, m.Token == r.Token, cmp.Or(c.seen.deadline(m), m.deleted))
	}
	slices.SortFunc(all, func(a, b *group) int { return strings.Compare(a.group, b.group) })
	return all, nil
}

// late is how long after its deadline a pod is assumed not to end: its node may be lost.
const late = 5 * time.Second

// take counts a pod that ends at a time; zero = it is not known to end.
func (g *group) take(pod *corev1.Pod, m machine, own bool, ends time.Time) {
	if pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil && pod.Spec.NodeName == "" {
		return
	}
	g.taken++
	switch {
	case own:
		g.own = append(g.own, pod)
	case m.State == provisioner.Terminated: // Kueue has freed its quota
	case ends.IsZero():
		g.lasting++
	case time.Now().Before(ends.Add(late)):
		g.going++
	}
}

// places returns slots that admit a request's pods at once, at most as many as are missing, and blocks other requests
// for like pods until leave is called.
func (c *Cloud) places(ctx context.Context, r provisioner.Request) (free []place, leave func(), err error) {
	if !c.config.Gang {
		return nil, func() {}, nil
	}
	pod, err := c.pod(r, "", 0, metav1.OwnerReference{})
	if err != nil {
		return nil, nil, err
	}
	like := pod.Annotations[noteShape]
	if leave, err = c.tokens.enter(ctx, "pods like "+like); err != nil {
		return nil, nil, err
	}
	for {
		var enough bool
		if free, enough, err = c.free(ctx, r, like); err == nil && !enough {
			err = adapter.Pause(ctx, time.Second)
		} else if err == nil {
			return free, leave, nil
		}
		if err != nil {
			leave()
			return nil, nil, err
		}
	}
}

// free returns the slots that exist now. They are not enough while others will soon be free: a pod in a group of its
// own would wait for quota that those groups keep.
func (c *Cloud) free(ctx context.Context, r provisioner.Request, like string) (free []place, enough bool, err error) {
	groups, err := c.groups(ctx, r)
	if err != nil {
		return nil, false, err
	}
	missing, going := r.Count, 0
	for _, g := range groups {
		missing -= len(g.own)
		if g.shape == like && g.lasting > 0 {
			free = append(free, slices.Repeat([]place{g.place}, max(g.count-g.taken, 0))...)
			going += g.going
		}
	}
	missing = max(missing, 0)
	return free[:min(len(free), missing)], len(free) >= missing || going == 0, nil
}

// settle finishes a launch's pods: its own group is as large as the number made, and it deletes a pod whose group may
// have ended meanwhile, as that pod would wait forever. No such pod has run yet.
func (c *Cloud) settle(ctx context.Context, r provisioner.Request, launch string) error {
	if !c.config.Gang {
		return nil
	}
	groups, err := c.groups(ctx, r)
	if err != nil {
		return err
	}
	pods := c.config.Client.Pods(c.config.Namespace)
	for _, g := range groups {
		for _, pod := range g.own {
			var err error
			switch made := strconv.Itoa(len(g.own)); {
			case g.group == launch && pod.Annotations[noteGroupCount] != made:
				_, err = pods.Patch(ctx, pod.Name, types.MergePatchType, annotate(map[string]string{noteGroupCount: made}), metav1.PatchOptions{})
			case g.group != launch && g.lasting == 0:
				c.config.Log.Info("the group of pods that this one was to join has ended", "pod", pod.Name, "group", g.group)
				err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{})
			}
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}
