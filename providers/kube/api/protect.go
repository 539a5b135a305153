package api

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tierml/tierml/internal/cloudname"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// protect makes the disruption budget for a launch of reliable pods, which hold the solution: evictions, such as those
// of `kubectl drain`, take one at a time, and never the last. Bare pods allow no other kind of budget
// (https://kubernetes.io/docs/tasks/run-application/configure-pdb/#arbitrary-controllers-and-selectors).
func (c *Cloud) protect(ctx context.Context, r provisioner.Request, secret *corev1.Secret) error {
	if r.Pool.Class != market.OnDemand {
		return nil
	}
	least := intstr.FromInt(max(1, r.Count-1))
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: c.meta(r, secret.Name, secret.OwnerReferences[0]), Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{labelRun: labelValue(c.config.Job), labelToken: cloudname.Digest(12, r.Token)}}}}
	if err := c.config.Client.Protect(ctx, budget); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// spread keeps a run's reliable pods on different nodes if there are enough.
func (c *Cloud) spread() []corev1.TopologySpreadConstraint {
	return []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{labelRun: labelValue(c.config.Job), labelClass: string(market.OnDemand)}}}}
}

// leaveEvent leaves an event on the run's ConfigMap, for `kubectl describe`.
func (c *Cloud) leaveEvent(ctx context.Context, owner metav1.OwnerReference, kind, reason, message string) {
	c.leaveEventOn(ctx, corev1.ObjectReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID}, kind, reason, message)
}

// leaveEventOn leaves an event on an object. While the API server remembers an event, it is not left again. A failure to
// leave an event has no other effect.
func (c *Cloud) leaveEventOn(ctx context.Context, about corev1.ObjectReference, kind, reason, message string) {
	if about.UID == "" {
		return
	}
	now := metav1.NewTime(time.Now())
	m := c.ownerMeta(about.Name + "." + cloudname.Digest(10, reason, message))
	about.Namespace = m.Namespace
	if len(message) > mostMessage {
		message = message[:mostMessage]
	}
	_, err := c.config.Client.Events(c.config.Namespace).Create(ctx, &corev1.Event{ObjectMeta: m, InvolvedObject: about,
		Type: kind, Reason: reason, Message: message, Count: 1, FirstTimestamp: now, LastTimestamp: now, Source: corev1.EventSource{Component: "tierml"}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		c.config.Log.Debug("leaving an event", "reason", reason, "err", err)
	}
}

// mostMessage is the API server's limit for an event's message.
const mostMessage = 1024
