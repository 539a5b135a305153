package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	compute "cloud.google.com/go/compute/apiv1"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// Launch buys machines of one pool: one by an insert, several by a bulkInsert, which may return fewer than requested.
// It waits for the operation, which reports a lack of capacity.
//
// The same token always returns the same machines: found by name and label while they exist, and for two weeks
// afterwards by the operations that ended them.
func (c *Cloud) Launch(ctx context.Context, r provisioner.Request) ([]provisioner.Instance, error) {
	doing := fmt.Sprintf("launching %d of %s", r.Count, r.Pool)
	if err := c.validateRequest(r); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	l, err := c.launches.enter(ctx, r.Token)
	if err != nil {
		return nil, failure(ctx, doing, err)
	}
	defer l.leave()
	if !l.unanswered { // otherwise repeating the call with the same id is more informative
		if bought, err := c.bought(ctx, doing, r); err != nil || len(bought) > 0 {
			return bought, err
		}
	}
	l.unanswered = true
	refusal := c.buy(ctx, doing, r, l.attempt)
	if refusal != nil && ctx.Err() != nil {
		return nil, refusal
	}
	bought, err := c.bought(ctx, doing, r)
	switch {
	case err != nil:
		return nil, err
	case len(bought) > 0:
		l.unanswered = false
		return bought, nil
	case refusal == nil:
		return nil, fmt.Errorf("%s: %w: the operation is done, and no machine is listed yet", doing, provisioner.ErrTemporary)
	case !provisioner.Retryable(refusal):
		l.unanswered = false
		l.attempt++
	}
	return nil, refusal
}

func (c *Cloud) validateRequest(r provisioner.Request) error {
	if err := r.Validate(c.Traits()); err != nil {
		return err
	}
	if r.Pool.Region != c.config.Region {
		return fmt.Errorf("%w: this cloud is region %s", provisioner.ErrInvalid, c.config.Region)
	}
	if c.config.Image == "" {
		return fmt.Errorf("%w: no machine image is configured", provisioner.ErrInvalid)
	}
	return nil
}

// bought returns the machines that a request's token already has: listed ones and ended ones.
func (c *Cloud) bought(ctx context.Context, doing string, r provisioner.Request) ([]provisioner.Instance, error) {
	prefix := tokenPrefix(c.config.Cluster, r.Token)
	events, err := c.zoneEvents(ctx, r.Pool.Zone, prefix)
	if err != nil {
		return nil, err
	}
	for _, name := range sortedKeys(events) {
		if op := events[name].inserting; op != "" { // inserted by an earlier process, which did not see it finish
			if _, err := c.wait(ctx, doing, r.Pool.Zone, op); err != nil {
				return nil, err
			}
		}
	}
	listed, err := c.zoneMachines(ctx, r.Pool.Zone, labelFilter(labelToken, labelValue(r.Token)))
	if err != nil {
		return nil, err
	}
	there := map[provisioner.InstanceID]bool{}
	var instances []provisioner.Instance
	for _, m := range listed {
		if m.Token != r.Token {
			continue
		}
		if m.mark != noteOf(r).Mark {
			return nil, fmt.Errorf("%s: %w: the token has been used for another request", doing, provisioner.ErrInvalid)
		}
		there[m.ID] = true
		instances = append(instances, m.Instance)
	}
	c.seen.add(listed, time.Now())
	for _, name := range sortedKeys(events) {
		if id := provisioner.InstanceID(name); !there[id] && events[name].created() {
			ended, other := c.departed(r, id, events[name])
			if other {
				return nil, fmt.Errorf("%s: %w: the token has been used for another request", doing, provisioner.ErrInvalid)
			}
			instances = append(instances, ended)
		}
	}
	provisioner.SortInstances(instances)
	return instances, nil
}

// departed returns a machine of a request that is no longer listed. If this Cloud saw it, its details and its request's
// are remembered; otherwise it is taken to be as requested.
func (c *Cloud) departed(r provisioner.Request, id provisioner.InstanceID, e event) (i provisioner.Instance, other bool) {
	m, known := c.seen.find(id)
	if known && m.mark != noteOf(r).Mark {
		return i, true
	}
	if !known {
		m = machine{zone: r.Pool.Zone, mark: noteOf(r).Mark, Instance: provisioner.Instance{
			ID: id, Pool: r.Pool, Token: r.Token, State: provisioner.Stopping, Launched: wholeSeconds(e.inserted), Tags: noteOf(r).Tags}}
		c.seen.add([]machine{m}, time.Now())
	}
	return c.seen.settle(id, e, c.endSettings()).Instance, false
}

// buy sends the request and waits for its operation.
func (c *Cloud) buy(ctx context.Context, doing string, r provisioner.Request, attempt int) error {
	id := requestID(c.config.Cluster, r.Token, attempt)
	var started *compute.Operation
	err := c.try(ctx, doing, c.config.AttemptTimeout, func(ctx context.Context) (err error) {
		if r.Count == 1 {
			started, err = c.instances.Insert(ctx, c.insertRequest(r, id))
		} else {
			started, err = c.instances.BulkInsert(ctx, c.bulkInsertRequest(r, id))
		}
		return err
	})
	if err != nil {
		return err
	}
	op := started.Proto()
	if !started.Done() {
		if op, err = c.wait(ctx, doing, r.Pool.Zone, started.Name()); err != nil {
			return err
		}
	}
	return operationFailure(doing, op)
}

// waitTime is how long Compute Engine holds one wait call for an operation.
const waitTime = 2 * time.Minute

// wait waits for an operation and returns it.
func (c *Cloud) wait(ctx context.Context, doing, zone, name string) (op *computepb.Operation, err error) {
	for {
		err := c.try(ctx, doing, c.config.AttemptTimeout+waitTime, func(ctx context.Context) (err error) {
			op, err = c.operations.Wait(ctx, &computepb.WaitZoneOperationRequest{Project: c.config.Project, Zone: zone, Operation: name})
			return err
		})
		if err != nil || op.GetStatus() == computepb.Operation_DONE {
			return op, err
		}
	}
}

func (c *Cloud) insertRequest(r provisioner.Request, id string) *computepb.InsertInstanceRequest {
	p := c.properties(r)
	return &computepb.InsertInstanceRequest{Project: c.config.Project, Zone: r.Pool.Zone, RequestId: &id,
		InstanceResource: &computepb.Instance{
			Name:        proto.String(machineNames(c.config.Cluster, r)[0]),
			MachineType: proto.String("zones/" + r.Pool.Zone + "/machineTypes/" + r.Pool.Type),
			Disks:       p.Disks, Labels: p.Labels, Metadata: p.Metadata, NetworkInterfaces: p.NetworkInterfaces,
			Scheduling: p.Scheduling, ServiceAccounts: p.ServiceAccounts, ShieldedInstanceConfig: p.ShieldedInstanceConfig, Tags: p.Tags,
		}}
}

func (c *Cloud) bulkInsertRequest(r provisioner.Request, id string) *computepb.BulkInsertInstanceRequest {
	names := map[string]*computepb.BulkInsertInstanceResourcePerInstanceProperties{}
	for _, name := range machineNames(c.config.Cluster, r) {
		names[name] = &computepb.BulkInsertInstanceResourcePerInstanceProperties{Name: proto.String(name)}
	}
	return &computepb.BulkInsertInstanceRequest{Project: c.config.Project, Zone: r.Pool.Zone, RequestId: &id,
		BulkInsertInstanceResourceResource: &computepb.BulkInsertInstanceResource{
			Count: proto.Int64(int64(r.Count)), MinCount: proto.Int64(1), PerInstanceProperties: names, InstanceProperties: c.properties(r),
		}}
}

// properties returns what a request's machines have in common.
func (c *Cloud) properties(r provisioner.Request) *computepb.InstanceProperties {
	p := &computepb.InstanceProperties{
		MachineType:       &r.Pool.Type,
		Labels:            c.labels(r),
		Metadata:          c.metadata(r),
		Scheduling:        c.scheduling(r),
		Disks:             []*computepb.AttachedDisk{c.bootDisk(r)},
		NetworkInterfaces: []*computepb.NetworkInterface{c.network()},
		ShieldedInstanceConfig: &computepb.ShieldedInstanceConfig{EnableVtpm: proto.Bool(true),
			EnableIntegrityMonitoring: proto.Bool(true), EnableSecureBoot: proto.Bool(!c.config.NoSecureBoot)},
	}
	if len(c.config.NetworkTags) > 0 {
		p.Tags = &computepb.Tags{Items: c.config.NetworkTags}
	}
	if c.config.ServiceAccount != "" {
		p.ServiceAccounts = []*computepb.ServiceAccount{{Email: &c.config.ServiceAccount, Scopes: c.config.Scopes}}
	}
	return p
}

func (c *Cloud) bootDisk(r provisioner.Request) *computepb.AttachedDisk {
	init := &computepb.AttachedDiskInitializeParams{SourceImage: &c.config.Image, Labels: c.labels(r)}
	if c.config.Disk.SizeGiB > 0 {
		init.DiskSizeGb = &c.config.Disk.SizeGiB
	}
	init.DiskType = proto.String("zones/" + r.Pool.Zone + "/diskTypes/" + c.config.Disk.Type)
	if r.Count > 1 { // instance properties have no zone
		init.DiskType = &c.config.Disk.Type
	}
	return &computepb.AttachedDisk{Boot: proto.Bool(true), AutoDelete: proto.Bool(true), InitializeParams: init}
}

func (c *Cloud) network() *computepb.NetworkInterface {
	n := &computepb.NetworkInterface{}
	switch {
	case c.config.Subnetwork != "":
		n.Subnetwork = &c.config.Subnetwork
	case c.config.Network != "":
		n.Network = &c.config.Network
	default:
		n.Network = proto.String("global/networks/default")
	}
	if c.config.ExternalIP {
		n.AccessConfigs = []*computepb.AccessConfig{{Name: proto.String("External NAT"), Type: proto.String("ONE_TO_ONE_NAT")}}
	}
	return n
}

// scheduling sets the terms on which machines are bought, and has them deleted automatically when they are preempted or
// their longest run ends. None is restarted: a machine that returns has lost its state.
func (c *Cloud) scheduling(r provisioner.Request) *computepb.Scheduling {
	s := &computepb.Scheduling{AutomaticRestart: proto.Bool(false)}
	spot := r.Pool.Class == market.Spot
	switch {
	case spot && c.config.Preemptible:
		s.Preemptible, s.OnHostMaintenance = proto.Bool(true), proto.String("TERMINATE")
	case spot:
		s.ProvisioningModel, s.OnHostMaintenance = proto.String("SPOT"), proto.String("TERMINATE")
		s.InstanceTerminationAction = proto.String("DELETE")
		if c.config.ExtraNotice > 0 {
			s.PreemptionNoticeDuration = seconds(c.config.ExtraNotice)
		}
	default:
		s.ProvisioningModel, s.OnHostMaintenance = proto.String("STANDARD"), proto.String("MIGRATE")
		if c.config.GPUs {
			s.OnHostMaintenance = proto.String("TERMINATE")
		}
	}
	if leash := c.config.leash(); leash > 0 {
		s.MaxRunDuration, s.InstanceTerminationAction = seconds(leash), proto.String("DELETE")
	}
	return s
}

func seconds(d time.Duration) *computepb.Duration {
	return &computepb.Duration{Seconds: proto.Int64(int64(d / time.Second))}
}

func (c *Cloud) metadata(r provisioner.Request) *computepb.Metadata {
	m := &computepb.Metadata{}
	add := func(key, value string) {
		if value != "" {
			m.Items = append(m.Items, &computepb.Items{Key: &key, Value: &value})
		}
	}
	add(metaNote, noteOf(r).text())
	if r.Pool.Class == market.Spot {
		add(metaNotice, c.Traits().NoticeLength.String())
	}
	add(metaStartup, c.config.StartupScript)
	add(metaUserData, r.UserData)
	return m
}

// launches tracks tokens that were used here, each by one call at a time.
type launches struct {
	mu     sync.Mutex
	tokens map[string]*launch
}

type launch struct {
	busy chan struct{} // has room for one call at a time
	// attempt counts permanent failures: see requestID.
	attempt int
	// unanswered: a call was sent, and its result is unknown.
	unanswered bool
}

func (l *launches) enter(ctx context.Context, token string) (*launch, error) {
	l.mu.Lock()
	if l.tokens == nil {
		l.tokens = map[string]*launch{}
	}
	one := l.tokens[token]
	if one == nil {
		one = &launch{busy: make(chan struct{}, 1)}
		l.tokens[token] = one
	}
	l.mu.Unlock()
	select {
	case one.busy <- struct{}{}:
		return one, ctx.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *launch) leave() { <-l.busy }
