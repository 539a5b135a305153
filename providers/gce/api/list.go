package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// List returns the cluster's machines, and for an hour those whose end this Cloud saw.
func (c *Cloud) List(ctx context.Context) ([]provisioner.Instance, error) {
	machines, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	instances := make([]provisioner.Instance, len(machines))
	for i, m := range machines {
		instances[i] = m.Instance
	}
	return instances, nil
}

// machine is an instance with what Compute Engine's operations add.
type machine struct {
	provisioner.Instance
	zone   string
	mark   string        // digest of the request that made it (note.Mark)
	extra  time.Duration // how much earlier than the shutdown the metadata announce a preemption
	warned time.Time     // when its preemption began; zero = it did not
	there  bool          // it is listed, possibly as stopped
	labels map[string]string
}

// look returns the cluster's machines, sorted by id: listed ones, and earlier ones that have ended.
func (c *Cloud) look(ctx context.Context) ([]machine, error) {
	listed, err := c.clusterMachines(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	c.seen.add(listed, now)
	var events map[string]event
	if c.seen.any() {
		if events, err = c.events(ctx); err != nil { // requested after the list, so that it has the end of any machine missing there
			return nil, err
		}
	}
	there := map[provisioner.InstanceID]bool{}
	for i := range listed {
		m := &listed[i]
		there[m.ID] = true
		if m.read(events[string(m.ID)]); m.State == provisioner.Terminated {
			m.Instance = c.seen.fix(*m, now)
		}
	}
	for _, id := range c.seen.missing(there, now) {
		if m := c.seen.settle(id, events[string(id)], c.endSettings()); m.ID != "" {
			listed = append(listed, m)
		}
	}
	slices.SortFunc(listed, func(a, b machine) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return listed, nil
}

// read adds the operations' facts to a listed machine.
func (m *machine) read(e event) {
	if !e.preempted.IsZero() && m.State != provisioner.Terminated && e.endedBy() == market.ByProvider {
		m.warned = e.preempted
	}
	if m.State == provisioner.Terminated {
		m.EndedBy = e.endedBy()
		m.Reason = firstNonEmpty(e.reason, m.Reason)
	}
}

func labelFilter(label, value string) string { return fmt.Sprintf("labels.%s = %q", label, value) }

// ours returns the filter for this Cloud's machines.
func (c *Cloud) ours() string {
	filter := labelFilter(labelCluster, labelValue(c.config.Cluster))
	if c.config.Job == "" {
		return filter
	}
	return "(" + filter + ") AND (" + labelFilter(labelJob, labelValue(c.config.Job)) + ")"
}

// eachInstance calls add for each instance, in all zones, that passes a filter; begin is called before each attempt.
func (c *Cloud) eachInstance(ctx context.Context, doing, filter string, begin func(), add func(*computepb.Instance) error) error {
	return c.try(ctx, doing, c.config.AttemptTimeout, func(ctx context.Context) error {
		begin()
		client, err := compute.NewInstancesRESTClient(ctx, c.within(ctx)...)
		if err != nil {
			return err
		}
		pages := client.AggregatedList(ctx, &computepb.AggregatedListInstancesRequest{
			Project: c.config.Project, Filter: &filter, MaxResults: proto.Uint32(pageSize),
		})
		for scope, err := range pages.All() {
			if err != nil {
				return err
			}
			if err := unreachable(scope.Key, scope.Value.GetWarning()); err != nil {
				return err
			}
			for _, i := range scope.Value.GetInstances() {
				if err := add(i); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// clusterMachines lists the cluster's machines in all zones of the region.
func (c *Cloud) clusterMachines(ctx context.Context) (found []machine, err error) {
	err = c.eachInstance(ctx, "listing instances", c.ours(), func() { found = nil }, func(i *computepb.Instance) (err error) {
		found, err = c.appendMachine(found, i)
		return err
	})
	return found, err
}

// zoneMachines lists the machines of a zone that pass a filter.
func (c *Cloud) zoneMachines(ctx context.Context, zone, filter string) ([]machine, error) {
	var found []machine
	err := c.try(ctx, "listing instances in "+zone, c.config.AttemptTimeout, func(ctx context.Context) error {
		found = nil
		client, err := compute.NewInstancesRESTClient(ctx, c.within(ctx)...)
		if err != nil {
			return err
		}
		pages := client.List(ctx, &computepb.ListInstancesRequest{
			Project: c.config.Project, Zone: zone, Filter: &filter, MaxResults: proto.Uint32(pageSize),
		})
		for i, err := range pages.All() {
			if err != nil {
				return err
			}
			if found, err = c.appendMachine(found, i); err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// appendMachine appends a machine, unless it is in another region or belongs to another user and only looks like ours.
func (c *Cloud) appendMachine(list []machine, i *computepb.Instance) ([]machine, error) {
	if !strings.HasPrefix(baseName(i.GetZone()), c.config.Region+"-") || i.GetLabels()[labelCluster] != labelValue(c.config.Cluster) ||
		c.config.Job != "" && i.GetLabels()[labelJob] != labelValue(c.config.Job) {
		return list, nil
	}
	m, err := c.machineOf(i)
	if err != nil {
		return nil, err
	}
	return append(list, m), nil
}

// machineOf converts an instance.
func (c *Cloud) machineOf(i *computepb.Instance) (machine, error) {
	launched := firstTime(i.GetCreationTimestamp())
	if i.GetName() == "" || launched.IsZero() {
		return machine{}, fmt.Errorf("compute Engine gave a machine without name or time: %q", i.GetName())
	}
	class := market.OnDemand
	if s := i.GetScheduling(); s.GetProvisioningModel() == "SPOT" || s.GetPreemptible() {
		class = market.Spot
	}
	m := machine{
		zone: baseName(i.GetZone()), there: true, labels: i.GetLabels(),
		extra: time.Duration(i.GetScheduling().GetPreemptionNoticeDuration().GetSeconds()) * time.Second,
		Instance: provisioner.Instance{
			ID: provisioner.InstanceID(i.GetName()),
			Pool: market.Pool{Provider: Provider, Region: c.config.Region, Zone: baseName(i.GetZone()),
				Type: baseName(i.GetMachineType()), Class: class},
			State: stateOf(i.GetStatus()), Launched: wholeSeconds(launched), Tags: map[string]string{},
		},
	}
	for _, item := range i.GetMetadata().GetItems() {
		if item.GetKey() == metaNote {
			n := readNote(item.GetValue())
			m.Token, m.mark = n.Token, n.Mark
			for name, value := range n.Tags {
				m.Tags[name] = value
			}
		}
	}
	if m.State == provisioner.Terminated {
		m.Ended, m.EndedBy = endOf(m.Launched, firstTime(i.GetLastStopTimestamp())), market.ByUser
		m.Reason = firstNonEmpty(i.GetStatusMessage(), "it was stopped")
	}
	return m, nil
}

// stateOf converts a status: a stopped machine, which Compute Engine calls terminated, costs only its disk, and never
// works for us again. Notify deletes it.
func stateOf(status string) provisioner.State {
	switch status {
	case "PROVISIONING", "STAGING", "PENDING", "":
		return provisioner.Pending
	case "RUNNING":
		return provisioner.Running
	case "TERMINATED", "STOPPED", "SUSPENDED":
		return provisioner.Terminated
	default: // STOPPING, PENDING_STOP, SUSPENDING, DEPROVISIONING, REPAIRING
		return provisioner.Stopping
	}
}

// endOf keeps times in order: a machine can be reclaimed before it is up.
func endOf(launched, ended time.Time) time.Time {
	if ended = wholeSeconds(ended); ended.Before(launched) {
		return launched
	}
	return ended
}

func wholeSeconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

func firstNonEmpty(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}
