package api

import (
	"context"
	"errors"

	"github.com/tierml/tierml/provisioner"
)

// Holdings returns the machines of the cluster, or of the Job that is configured, that have not ended. It gives only those
// that were launched by a Cloud, which carry its token: a job server's own machine may carry the cluster's tag, too. Launch
// templates that a dead controller has left are among them, under ids that Terminate takes.
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
	if errors.Is(err, provisioner.ErrDenied) { // a role that may not buy fleets has left none
		return live, nil
	}
	return append(live, left...), err
}
