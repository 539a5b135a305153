package elasticity

import (
	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/tiers"
)

// A job that leaves its reliable tier open starts with the number of machines in its plan. During the run the duration
// of cuts shows whether they are enough: one machine more or less is a target like a requested one (scale.go), and is
// journaled and restored as such. A requested number takes precedence.

// growth limits the number of machines to a multiple of the plan's.
const growth = 2

// advanceCount evaluates each new cut once.
func (c *Controller) advanceCount() {
	cut := c.training.Cuts.Newest
	if !c.cfg.Grows || cut.Clock == c.judged {
		return
	}
	c.judged = cut.Clock
	scale := c.Scale()
	if c.target.reliable > 0 && !c.target.measured || c.target.lent > 0 || c.closing() || c.target.paused != "" || !c.training.Need().Standing ||
		c.training.Recovery != nil || scale.Reliable != scale.WantReliable {
		c.count.Again()
		return
	}
	planned := max(c.cfg.Reliable.Count, 1)
	s := tiers.Strain{Seconds: cut.Seconds, Interval: cut.Interval, Flush: cut.Flush, Machines: scale.Reliable, Planned: planned}
	if c.mayGrow() {
		s.Most = min(growth*planned, c.cfg.Job.Schema.Partitions)
	}
	if m := c.fleet.Roster.Youngest(); m != nil && c.cfg.WholeHours {
		s.Paid, s.Leave = c.fleet.PaidUntil(m), c.cfg.DrainMargin
		s.Lead = s.Leave + 2*max(c.cfg.CutEvery, c.training.Cuts.Pace.Every)
	}
	rule := c.cfg.Count
	if rule == (tiers.CountRule{}) {
		rule = tiers.DefaultCountRule()
	}
	n, why := c.count.Cut(c.step.Now, s, rule)
	if n == scale.Reliable || n < scale.Reliable && c.admit(n) != nil {
		return
	}
	from := c.describe()
	c.target.reliable, c.target.measured = n, n != planned
	if !c.target.measured {
		c.target.reliable = 0
	}
	c.setDemand()
	c.recordScale(from, why, 0)
	c.fleet.Demanded()
	c.training.Rearrange()
}

// mayGrow reports whether the job's limits have room for another machine.
func (c *Controller) mayGrow() bool {
	if c.cfg.PerHour <= 0 {
		return c.overBudget == ""
	}
	defer c.fleet.View.Stale() // the rest of the step changes machines before the policy decides
	price := c.cfg.Reliable.Type.OnDemand
	if c.cfg.Rules != nil {
		price = c.cfg.Rules.Terms().Fees.Due(c.cfg.Reliable.Pool, price)
	}
	return c.overBudget == "" && bidding.Room(c.State(), price)
}
