package api

import (
	"context"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/tierml/tierml/provisioner"
)

// Preempt makes Compute Engine reclaim machines as it would itself, with a notice first: a simulated maintenance event
// preempts Spot and preemptible machines (instances.simulateMaintenanceEvent). It is for drills. Unknown machines are
// skipped.
func (c *Cloud) Preempt(ctx context.Context, ids ...provisioner.InstanceID) error {
	return c.each(ctx, ids, func(ctx context.Context, zone string, id provisioner.InstanceID) error {
		return c.try(ctx, "simulating a maintenance event of instance "+string(id), c.config.AttemptTimeout, func(ctx context.Context) error {
			_, err := c.instances.SimulateMaintenanceEvent(ctx, &computepb.SimulateMaintenanceEventInstanceRequest{
				Project: c.config.Project, Zone: zone, Instance: string(id)})
			return err
		})
	})
}
