package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tierml/tierml/provisioner"
)

// List returns the pods of the run, or of the cluster, and those whose end this Cloud saw.
func (c *Cloud) List(ctx context.Context) ([]provisioner.Instance, error) {
	machines, _, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	instances := make([]provisioner.Instance, len(machines))
	for i, m := range machines {
		instances[i] = m.Instance
	}
	return instances, nil
}

// selector returns the selector of this Cloud's objects.
func (c *Cloud) selector() string {
	s := labelCluster + "=" + labelValue(c.config.Cluster)
	if c.config.Job != "" {
		s += "," + labelRun + "=" + labelValue(c.config.Job)
	}
	return s
}

// look returns the machines sorted by id: listed ones, and ended ones. Version is the list's, to watch from.
func (c *Cloud) look(ctx context.Context) (machines []machine, version string, err error) {
	const doing = "listing pods"
	if err := ctx.Err(); err != nil {
		return nil, "", failure(ctx, doing, err)
	}
	before := c.seen.before()
	list, err := c.config.Client.Pods(c.config.Namespace).List(ctx, metav1.ListOptions{LabelSelector: c.selector()})
	if err != nil {
		return nil, "", failure(ctx, doing, err)
	}
	listed := map[provisioner.InstanceID]bool{}
	for i := range list.Items {
		if m := c.read(&list.Items[i]); m.Token != "" { // otherwise another user's, with copied labels
			listed[m.ID] = true
			machines = append(machines, c.seen.note(m))
		}
	}
	for id, m := range before {
		if !listed[id] {
			c.seen.lose(m)
		}
	}
	machines = append(machines, c.seen.ended(listed)...)
	slices.SortFunc(machines, func(a, b machine) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return machines, list.ResourceVersion, nil
}

// Recall remembers a machine that an earlier process has launched.
func (c *Cloud) Recall(i provisioner.Instance) { c.seen.note(machine{Instance: i}) }

// Holdings returns the pods that have not ended.
func (c *Cloud) Holdings(ctx context.Context) ([]provisioner.Holding, error) {
	machines, _, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	var live []provisioner.Holding
	for _, m := range machines {
		if m.State != provisioner.Terminated {
			live = append(live, provisioner.Holding{Instance: m.Instance, Job: m.run, Owner: m.owner, Expires: m.expires})
		}
	}
	return live, nil
}

// each calls do once per pod, and continues after a failure. An unknown pod is not a failure.
func each(ctx context.Context, doing string, ids []provisioner.InstanceID, do func(name string) error) error {
	if err := ctx.Err(); err != nil {
		return failure(ctx, doing, err)
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	var errs []error
	for _, id := range slices.Compact(ids) {
		if err := do(string(id)); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, failure(ctx, fmt.Sprintf("%s %s", doing, id), err))
		}
	}
	return errors.Join(errs...)
}

// Terminate deletes pods. They get one second: no more is needed, and with none the API server would forget them before
// their node has ended them.
func (c *Cloud) Terminate(ctx context.Context, ids ...provisioner.InstanceID) error {
	grace := int64(1)
	return each(ctx, "deleting pod", ids, func(name string) error {
		c.seen.recordEnd(provisioner.InstanceID(name))
		return c.config.Client.Pods(c.config.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	})
}

// Renew extends pods' leases. It cannot extend activeDeadlineSeconds, by which the cluster itself ends them.
func (c *Cloud) Renew(ctx context.Context, generation string, until time.Time, ids ...provisioner.InstanceID) error {
	values := map[string]string{noteExpires: until.UTC().Format(time.RFC3339)}
	if generation != "" {
		values[noteGeneration] = generation
	}
	return each(ctx, "renewing the lease of pod", ids, func(name string) error {
		_, err := c.config.Client.Pods(c.config.Namespace).Patch(ctx, name, types.MergePatchType, annotate(values), metav1.PatchOptions{})
		return err
	})
}

// Preempt has the cluster evict pods as a drain of their nodes does (the Eviction API), for drills.
func (c *Cloud) Preempt(ctx context.Context, ids ...provisioner.InstanceID) error {
	return each(ctx, "evicting pod", ids, func(name string) error {
		return c.config.Client.Evict(ctx,
			&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.config.Namespace}})
	})
}

// RemoveLeftovers deletes the ConfigMaps of runs that no longer have pods, and with them everything that they own.
func (c *Cloud) RemoveLeftovers(ctx context.Context) error {
	live, err := c.Holdings(ctx)
	if err != nil {
		return err
	}
	busy := map[string]bool{}
	for _, h := range live {
		busy[ownerName(c.config.Cluster, h.Job)] = true
	}
	owners, err := c.owners(ctx)
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	var errs []error
	for _, o := range owners {
		if busy[o.Name] {
			continue
		}
		err := c.config.Client.ConfigMaps(c.config.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, failure(ctx, "deleting config map "+o.Name, err))
		}
	}
	return errors.Join(errs...)
}

// owners returns the runs' ConfigMaps.
func (c *Cloud) owners(ctx context.Context) ([]corev1.ConfigMap, error) {
	list, err := c.config.Client.ConfigMaps(c.config.Namespace).List(ctx, metav1.ListOptions{LabelSelector: c.selector()})
	if err != nil {
		return nil, failure(ctx, "listing config maps", err)
	}
	return list.Items, nil
}
