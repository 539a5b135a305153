package api

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/tierml/tierml/provisioner"
)

// changesAtOnce is how many machines are deleted or labelled concurrently: no call takes several.
const changesAtOnce = 8

// Terminate deletes machines, including stopped ones. A failure with one machine does not affect the others.
func (c *Cloud) Terminate(ctx context.Context, ids ...provisioner.InstanceID) error {
	if err := ctx.Err(); err != nil {
		return failure(ctx, "deleting instances", err)
	}
	return c.each(ctx, ids, c.delete)
}

// each calls change for every existing machine, several at a time, and joins the errors.
func (c *Cloud) each(ctx context.Context, ids []provisioner.InstanceID, change func(ctx context.Context, zone string, id provisioner.InstanceID) error) error {
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
				errs[n] = change(ctx, zone, id)
				return nil
			})
		}
	}
	_ = calls.Wait() // never fails: see errs
	return errors.Join(errs...)
}

// zonesOf returns the zones of machines that are not known to have ended; it searches the cluster for unknown machines.
func (c *Cloud) zonesOf(ctx context.Context, ids []provisioner.InstanceID) (map[provisioner.InstanceID]string, error) {
	zones := map[provisioner.InstanceID]string{}
	looked := false
	for _, id := range ids {
		m, known := c.seen.find(id)
		if !known && !looked {
			if _, err := c.look(ctx); err != nil {
				return nil, err
			}
			looked = true
			m, known = c.seen.find(id)
		}
		if known {
			zones[id] = m.zone
		}
	}
	return zones, nil
}

func (c *Cloud) delete(ctx context.Context, zone string, id provisioner.InstanceID) error {
	err := c.try(ctx, "deleting instance "+string(id), c.config.AttemptTimeout, func(ctx context.Context) error {
		_, err := c.instances.Delete(ctx, &computepb.DeleteInstanceRequest{Project: c.config.Project, Zone: zone, Instance: string(id)})
		return err
	})
	if isNotFound(err) {
		return nil
	}
	return err
}
