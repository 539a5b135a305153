package elasticity

import (
	"slices"

	"github.com/tierml/tierml/ps"
)

// configure changes a controller's configuration.
func (c *Controller) configure(change func(*Config)) {
	change(&c.cfg)
	job := c.conf.training.Job
	*c.conf.fleet, *c.conf.training = *c.cfg.fleet(), *c.cfg.ForTraining()
	c.conf.training.Job.ResumeFrom, c.conf.training.Job.ResumeAt = job.ResumeFrom, job.ResumeAt
	c.step.Speed = c.cfg.Speed
	c.setDemand()
}

func partitionsOf(holders []ps.ServerID, id ps.ServerID) []ps.Partition {
	var out []ps.Partition
	for p, h := range holders {
		if h == id {
			out = append(out, ps.Partition(p))
		}
	}
	return out
}

// holdersOf lists the distinct machines of a list.
func holdersOf(ids []ps.ServerID) []ps.ServerID {
	out := slices.Clone(ids)
	slices.Sort(out)
	return slices.Compact(out)
}
