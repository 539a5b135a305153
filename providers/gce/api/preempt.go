package api

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/tierml/tierml/provisioner"
)

// Preempt has Compute Engine take machines back as it does itself, notice first: a simulated maintenance event, which preempts
// Spot and preemptible machines (instances.simulateMaintenanceEvent). It is for drills. Those that nobody knows are left out.
func (c *Cloud) Preempt(ctx context.Context, ids ...provisioner.InstanceID) error {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	zones, err := c.zonesOf(ctx, ids)
	if err != nil {
		return err
	}
	errs := make([]error, len(ids))
	var calls errgroup.Group
	calls.SetLimit(changesAtOnce)
	for n, id := range ids {
		if zone := zones[id]; zone != "" {
			calls.Go(func() error {
				errs[n] = c.try(ctx, "simulating a maintenance event of instance "+string(id), c.config.AttemptTimeout, func(ctx context.Context) error {
					_, err := c.instances.SimulateMaintenanceEvent(ctx, &computepb.SimulateMaintenanceEventInstanceRequest{
						Project: c.config.Project, Zone: zone, Instance: string(id)})
					return err
				})
				return nil
			})
		}
	}
	_ = calls.Wait() // never fails: see errs
	return errors.Join(errs...)
}
