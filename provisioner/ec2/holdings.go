package ec2

import (
	"context"
	"time"

	"github.com/tierml/tierml/provisioner"
)

// Holdings gives the machines of the cluster, or of the Job that is configured, that have not ended. It gives only those
// that were launched by a Cloud, which carry its token: a controller's own machine may carry the cluster's tag, too.
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
		h := provisioner.Holding{Instance: m.Instance, Job: m.job, Owner: m.owner}
		if at, err := time.Parse(time.RFC3339, m.expires); err == nil { // else somebody has changed the tag
			h.Expires = at
		}
		live = append(live, h)
	}
	return live, nil
}
