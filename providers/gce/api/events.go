package api

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// Types of operations in a machine's life. Those with a dot are started by the provider
// (https://docs.cloud.google.com/compute/docs/logging/audit-logging, "System event audit logs").
const (
	opInsert     = "insert"
	opBulkInsert = "bulkInsert"
	opDelete     = "delete"
	opStop       = "stop"
	opPreempted  = "compute.instances.preempted"
	opHostError  = "compute.instances.hostError"
	opGuestEnd   = "compute.instances.guestTerminate"
	opMaintained = "compute.instances.terminateOnHostMaintenance"
)

// event is what the operations report about one machine. Times are the provider's; zero = none.
type event struct {
	inserted  time.Time // requested
	inserting string    // name of the insert operation that is still running
	made      bool      // one of the insert operations succeeded

	preempted time.Time // the preemption began
	broken    time.Time // the host failed, or was maintained
	closing   time.Time // when its end was first requested
	running   bool      // one of these operations is not done
	ended     time.Time // when the last of these was done
	reason    string    // in the provider's words
}

// created reports whether the machine existed.
func (e event) created() bool { return e.made && e.inserting == "" }

// endedBy returns which side ended it: the provider, unless its end had been requested earlier.
func (e event) endedBy() market.EndedBy {
	for _, began := range []time.Time{e.preempted, e.broken} {
		if !began.IsZero() && (e.closing.IsZero() || !e.closing.Before(began)) {
			return market.ByProvider
		}
	}
	return market.ByUser
}

// take adds the facts of one operation.
func (e *event) take(op *computepb.Operation) {
	began := firstTime(op.GetStartTime(), op.GetInsertTime())
	done := op.GetStatus() == computepb.Operation_DONE
	switch op.GetOperationType() {
	case opInsert, opBulkInsert:
		switch {
		case !done:
			e.inserting = op.GetName()
		case op.GetError() == nil:
			e.inserted, e.made = began, true
		}
		return
	case opPreempted:
		e.preempted = began
	case opHostError, opMaintained:
		e.broken = began
	case opDelete, opStop, opGuestEnd:
		if op.GetError() != nil {
			return
		}
		if e.closing.IsZero() || began.Before(e.closing) {
			e.closing = began
		}
	default:
		return
	}
	if !done {
		e.running = true
		return
	}
	if end := firstTime(op.GetEndTime(), op.GetInsertTime()); end.After(e.ended) {
		e.ended = end
	}
	if words := op.GetStatusMessage(); words != "" && (e.reason == "" || op.GetOperationType() == opPreempted) {
		e.reason = words
	}
	if e.reason == "" {
		e.reason = op.GetOperationType() + " by " + op.GetUser()
	}
}

// firstTime parses the first text that is a time.
func firstTime(texts ...string) time.Time {
	for _, text := range texts {
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// pageSize is Compute Engine's largest page.
const pageSize = 500

// targetFilter matches operations on machines whose names have this prefix. Filters with eq take a regular expression
// for the whole value, and for one field only.
func targetFilter(prefix string) string {
	return fmt.Sprintf(`targetLink eq ".*/instances/%s.*"`, regexp.QuoteMeta(prefix))
}

// events returns what the operations of the whole project report about the cluster's machines, by their names.
func (c *Cloud) events(ctx context.Context) (map[string]event, error) {
	prefix := clusterPrefix(c.config.Cluster)
	var found map[string]event
	err := c.try(ctx, "listing operations", c.config.AttemptTimeout, func(ctx context.Context) error {
		found = map[string]event{}
		client, err := compute.NewGlobalOperationsRESTClient(ctx, c.within(ctx)...)
		if err != nil {
			return err
		}
		pages := client.AggregatedList(ctx, &computepb.AggregatedListGlobalOperationsRequest{
			Project: c.config.Project, Filter: proto.String(targetFilter(prefix)), MaxResults: proto.Uint32(pageSize),
		})
		for scope, err := range pages.All() {
			if err != nil {
				return err
			}
			if err := unreachable(scope.Key, scope.Value.GetWarning()); err != nil {
				return err
			}
			for _, op := range scope.Value.GetOperations() {
				takeInto(found, prefix, op)
			}
		}
		return nil
	})
	return found, err
}

// zoneEvents is events for the machines of one zone whose names have this prefix.
func (c *Cloud) zoneEvents(ctx context.Context, zone, prefix string) (map[string]event, error) {
	var found map[string]event
	err := c.try(ctx, "listing operations in "+zone, c.config.AttemptTimeout, func(ctx context.Context) error {
		found = map[string]event{}
		client, err := compute.NewZoneOperationsRESTClient(ctx, c.within(ctx)...)
		if err != nil {
			return err
		}
		pages := client.List(ctx, &computepb.ListZoneOperationsRequest{
			Project: c.config.Project, Zone: zone, Filter: proto.String(targetFilter(prefix)), MaxResults: proto.Uint32(pageSize),
		})
		for op, err := range pages.All() {
			if err != nil {
				return err
			}
			takeInto(found, prefix, op)
		}
		return nil
	})
	return found, err
}

func takeInto(found map[string]event, prefix string, op *computepb.Operation) {
	_, instance, ok := strings.Cut(op.GetTargetLink(), "/instances/")
	if !ok || !strings.HasPrefix(instance, prefix) {
		return
	}
	e := found[instance]
	e.take(op)
	found[instance] = e
}

// unreachable returns an error when an aggregated list omits a zone: machines in it would seem to be gone.
func unreachable(scope string, w *computepb.Warning) error {
	switch w.GetCode() {
	case "", "NO_RESULTS_ON_PAGE":
		return nil
	}
	return &adapter.Answer{Doing: "listing " + scope, Kind: provisioner.ErrTemporary, Code: w.GetCode(), Message: w.GetMessage()}
}
