package api

import (
	"context"
	"errors"

	"github.com/tierml/tierml/provisioner"
)

// Holdings returns the machines of the cluster, or of the configured Job, that have not ended. It returns only those that a Cloud launched,
// which carry its token: a job server's own machine may also carry the cluster's tag. It includes launch templates that a dead controller
// left behind, with ids that Terminate accepts.
func (c *Cloud) Holdings(ctx context.Context) ([]provisioner.Holding, error) {
	machines, err := c.describe(ctx)
	if err != nil {
		return nil, err
	}
	var live []provisioner.Holding
	for _, m := range machines {
		if m.State == provisioner.Terminated || m.Token == "" {
			continue
		}
		live = append(live, m.holding())
	}
	left, err := c.leftTemplates(ctx)
	if errors.Is(err, provisioner.ErrDenied) { // a role that may not buy fleets cannot have left any
		return live, nil
	}
	return append(live, left...), err
}
