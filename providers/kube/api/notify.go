package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// gather is how long to collect further changes after the first: a list follows, and a lost node takes several pods
// with it.
const gather = 100 * time.Millisecond

// Notify reports pods that will end or have ended. Lists are authoritative; the watch signals when to list again, and
// reports pods that were gone before the next list. So a watch that breaks, expires (410) or skips something costs only
// time, at most Resync.
func (c *Cloud) Notify(ctx context.Context, f func(provisioner.Notice)) error {
	w := &watcher{cloud: c}
	defer w.stop()
	return adapter.Watch(ctx, c.config.Log, gather, w.next, func(n provisioner.Notice) {
		c.tellOf(ctx, n)
		f(n)
	})
}

// tellOf leaves an event about what the cluster does to a pod, on the run and on the pod.
func (c *Cloud) tellOf(ctx context.Context, n provisioner.Notice) {
	m := c.seen.lastSeen(n.ID)
	reason, why := "", ""
	switch {
	case n.Kind == provisioner.Eviction:
		reason, why = "Evicted", fmt.Sprintf("on node %s has notice: %s", m.node, cmp.Or(m.disrupted, m.Reason, "its node goes, or it was deleted"))
	case n.Kind == provisioner.Ended && n.Instance.EndedBy == market.ByProvider:
		reason, why = "Lost", "was lost: "+n.Instance.Reason
	default:
		return
	}
	text := fmt.Sprintf("pod %s %s", n.ID, why)
	c.leaveEvent(ctx, m.owned, corev1.EventTypeWarning, reason, text)
	c.leaveEventOn(ctx, corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Name: string(n.ID), UID: m.uid}, corev1.EventTypeWarning, reason, text)
}

// watcher follows the run's pods, and the nodes if that is allowed.
type watcher struct {
	cloud        *Cloud
	pods, nodes  watch.Interface
	withoutNodes bool
	failed       bool // whether the last look failed
}

// pause is how long after a failure the API server is queried again.
const pause = time.Second

// next waits for a change, unless nothing is watched yet, and returns all machines.
func (w *watcher) next(ctx context.Context) (shown []adapter.Shown, err error) {
	c := w.cloud
	if w.failed {
		_ = adapter.Pause(ctx, pause)
	}
	defer func() { w.failed = err != nil }()
	if w.pods != nil {
		w.wait(ctx)
	}
	machines, version, err := c.look(ctx)
	if err != nil {
		w.stop()
		return nil, err
	}
	if w.pods == nil {
		if err := w.start(ctx, version); err != nil {
			return nil, err
		}
	}
	shown = make([]adapter.Shown, len(machines))
	for i, m := range machines {
		m.Launched, m.Ended = wholeSeconds(m.Launched), m.after(m.Ended)
		shown[i] = adapter.Shown{Instance: m.Instance}
		if by := c.seen.deadline(m); !by.IsZero() {
			shown[i].Deadline = c.config.Clock.At(by)
		}
	}
	return shown, nil
}

func (w *watcher) start(ctx context.Context, version string) (err error) {
	c := w.cloud
	w.pods, err = c.config.Client.Pods(c.config.Namespace).Watch(ctx, metav1.ListOptions{LabelSelector: c.selector(), ResourceVersion: version})
	if err != nil {
		w.pods = nil
		return failure(ctx, "watching pods", err)
	}
	if w.withoutNodes {
		return nil
	}
	list, err := c.config.Client.Nodes().List(ctx, metav1.ListOptions{})
	if err == nil {
		for i := range list.Items {
			w.see(&list.Items[i])
		}
		w.nodes, err = c.config.Client.Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	}
	if err != nil && ctx.Err() == nil {
		err = failure(ctx, "watching nodes", err)
		w.nodes, w.withoutNodes = nil, errors.Is(err, provisioner.ErrDenied)
		c.config.Log.Warn("taints of nodes are not seen: pods are warned when they are deleted, not before", "err", err)
	}
	return nil
}

func (w *watcher) stop() {
	for _, one := range []watch.Interface{w.pods, w.nodes} {
		if one != nil {
			one.Stop()
		}
	}
	w.pods, w.nodes = nil, nil
}

// wait returns at the first change, when a watch ends, or when it is time to list anyway.
func (w *watcher) wait(ctx context.Context) {
	timer := time.NewTimer(w.cloud.config.Resync)
	defer timer.Stop()
	var nodes <-chan watch.Event
	if w.nodes != nil {
		nodes = w.nodes.ResultChan()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case e, open := <-w.pods.ResultChan():
			if w.take(e, open) {
				return
			}
		case e, open := <-nodes:
			if w.take(e, open) {
				return
			}
		}
	}
}

// take records an event, and reports whether it may cause a notice.
func (w *watcher) take(e watch.Event, open bool) bool {
	if !open || e.Type == watch.Error { // also 410: the next look lists, and watches from that version
		w.stop()
		return true
	}
	switch object := e.Object.(type) {
	case *corev1.Pod:
		switch m := w.cloud.read(object); {
		case m.Token == "":
			return false
		case e.Type == watch.Deleted:
			w.cloud.seen.lose(m)
		default:
			w.cloud.seen.note(m)
		}
		return true
	case *corev1.Node:
		if e.Type == watch.Deleted {
			w.cloud.seen.doom(object.Name, false, time.Time{})
			return false // its pods get events of their own
		}
		return w.see(object)
	}
	return false
}

// see records whether a node will be removed.
func (w *watcher) see(node *corev1.Node) bool {
	bad := doomed(node)
	w.cloud.seen.doom(node.Name, bad, wholeSeconds(time.Now().Add(w.cloud.config.Notice)))
	return bad
}
