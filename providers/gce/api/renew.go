package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/googleapi"

	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/provisioner/adapter"
)

// Renew extends machines' leases and records their new owner: the labels tierml-expiry and tierml-generation. (The
// leash, after which Compute Engine itself deletes a machine, is set at its launch and stays.) A failure with one
// machine does not affect the others.
func (c *Cloud) Renew(ctx context.Context, generation string, until time.Time, ids ...provisioner.InstanceID) error {
	return c.each(ctx, ids, func(ctx context.Context, zone string, id provisioner.InstanceID) error {
		return c.renew(ctx, zone, id, generation, expiry(until))
	})
}

// renew replaces all labels of a machine, based on their fingerprint: the API has no other way.
func (c *Cloud) renew(ctx context.Context, zone string, id provisioner.InstanceID, generation, until string) error {
	err := c.try(ctx, "renewing the lease of "+string(id), c.config.AttemptTimeout, func(ctx context.Context) error {
		i, err := c.instances.Get(ctx, &computepb.GetInstanceRequest{Project: c.config.Project, Zone: zone, Instance: string(id)})
		if err != nil {
			return err
		}
		labels := maps.Clone(i.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		if labels[labelExpiry] = until; generation != "" {
			labels[labelGeneration] = labelValue(generation)
		}
		_, err = c.instances.SetLabels(ctx, &computepb.SetLabelsInstanceRequest{Project: c.config.Project, Zone: zone, Instance: string(id),
			InstancesSetLabelsRequestResource: &computepb.InstancesSetLabelsRequest{LabelFingerprint: i.LabelFingerprint, Labels: labels}})
		if answer, ok := errors.AsType[*googleapi.Error](err); ok && answer.Code == http.StatusPreconditionFailed {
			return &adapter.Answer{Doing: "renewing the lease of " + string(id), Kind: provisioner.ErrTemporary, Code: "conditionNotMet",
				Message: "its labels have been changed meanwhile", Err: err}
		}
		return err
	})
	if isNotFound(err) {
		return nil
	}
	return err
}
