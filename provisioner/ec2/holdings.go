package ec2

import (
	"context"
	"time"

	"github.com/tierml/tierml/provisioner"
)

// Holding is a machine that costs money, with what its tags say of it.
type Holding struct {
	provisioner.Instance
	Job, Owner string
	Expires    time.Time // zero = the tag says nothing
}

// Holdings gives the machines of the cluster, or of the Job that is configured, that have not ended. It gives only those
// that were launched by a Cloud, which carry its token: a controller's own machine may carry the cluster's tag, too.
func (c *Cloud) Holdings(ctx context.Context) ([]Holding, error) {
	machines, err := c.describe(ctx)
	if err != nil {
		return nil, err
	}
	var live []Holding
	for _, m := range machines {
		if m.State == provisioner.Terminated || m.Token == "" {
			continue
		}
		h := Holding{Instance: m.Instance, Job: m.job, Owner: m.owner}
		if at, err := time.Parse(time.RFC3339, m.expires); err == nil { // else somebody has changed the tag
			h.Expires = at
		}
		live = append(live, h)
	}
	return live, nil
}
