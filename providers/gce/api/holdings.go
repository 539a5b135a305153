package api

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierml/tierml/provisioner"
)

// Holdings returns the existing machines of the cluster, or of the configured Job, including stopped ones, whose disks
// still cost money. It returns only machines that a Cloud launched, which carry its token: a job server's own machine
// may carry the cluster's label, too.
func (c *Cloud) Holdings(ctx context.Context) ([]provisioner.Holding, error) {
	machines, err := c.clusterMachines(ctx)
	if err != nil {
		return nil, err
	}
	c.seen.add(machines, time.Now()) // so that Terminate knows their zones
	var live []provisioner.Holding
	for _, m := range machines {
		if m.labels[labelToken] == "" {
			continue
		}
		h := provisioner.Holding{Instance: m.Instance, Job: m.labels[labelJob], Owner: m.labels[labelOwner]}
		if at, err := strconv.ParseInt(m.labels[labelExpiry], 10, 64); err == nil { // otherwise the label was changed by hand
			h.Expires = time.Unix(at, 0).UTC()
		}
		live = append(live, h)
	}
	slices.SortFunc(live, func(a, b provisioner.Holding) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return live, nil
}
