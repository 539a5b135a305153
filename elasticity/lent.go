package elasticity

import "github.com/tierml/tierml/tiers"

// A placer of many jobs on shared machines lends a job an additional reliable machine while its partitions would be served too slowly on
// its present ones (Parameter Service, section 3.3.2), and takes it back. It is bought, filled, emptied and released like one requested by
// `tierml scale`; a number that a person requested has priority.

// lend sets how many additional machines the job should have, and which one should go when it has too many.
func (c *Controller) lend(p tiers.Preference) {
	if p.More < 0 || p.More == c.target.lent && p.Leave == c.target.leaves || c.closing() {
		return
	}
	from := c.describe()
	c.target.lent, c.target.leaves = p.More, p.Leave
	c.setDemand()
	c.recordScale(from, p.Why, 0)
	c.fleet.Demanded()
	c.training.Rearrange()
}
