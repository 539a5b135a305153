package elasticity

import (
	"fmt"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/tiers"
)

// Where no reliable machine can be had, the most reliable available serves, with checkpoints (TierML, footnote 7). It is of
// the reliable tier in every respect, but that it may be taken: then the next one takes its place, from the committed cut
// where its warning leaves the time, and from the newest checkpoint otherwise.

// substitutes reports whether the job may stand on machines that can be taken: only with checkpoints to go back to.
func (c *Controller) substitutes() bool {
	how := c.cfg.Checkpoints
	return how.Place != "" && (how.Every > 0 || how.EveryClocks > 0)
}

// spotTries is how many tries in vain, in a row, it takes, where the job wants a spot machine to serve, until an on-demand one does.
const spotTries = 2

// buyReliable buys machines for the reliable tier: of its own pool, or the most reliable that can be had.
func (c *Controller) buyReliable(count int) {
	own := c.cfg.Reliable.Count > 0
	if own && !(c.reliable.none && c.substitutes()) {
		why := "the reliable tier holds the solution"
		if left := len(c.reliableMembers()); c.stood && left < c.wantReliable() && c.admit(left) != nil {
			why += fmt.Sprintf("; training waits for it where it must: %v", c.admit(left))
		}
		c.launch(tiers.Reliable, bidding.Acquire{Pool: c.cfg.Reliable.Pool, Count: count, Why: why})
		return
	}
	best, found := bidding.MostReliable(c.State(), market.Estimator{}, own || c.reliable.tries >= spotTries)
	if !found { // perhaps the market, or the pool itself, gives something later
		c.reliable.none = false
		c.reliable.err = fmt.Errorf("and no pool can be bought from now")
		c.putOffReliable()
		return
	}
	c.launch(tiers.Reliable, bidding.Acquire{Pool: best.Pool, Bid: best.Bid, Count: count, Why: best.Why})
}

// putOffReliable waits before a reliable machine is asked for again. While none serves, the transient machines have nothing to
// do: they are let go rather than paid to wait, and the policy buys others once one serves.
func (c *Controller) putOffReliable() {
	c.reliable.after = c.now.Add(c.cfg.RetryCapacity)
	if !c.stood || c.standing() || c.recovery != nil {
		return
	}
	for _, m := range c.ordered(func(m *machine) bool { return m.tier == tiers.Transient && m.staying() }) {
		c.release(m, "no machine serves, and none that could can be bought now")
	}
}

// admit says why so many reliable machines cannot hold the job alone; nil when they can, or nobody knows.
func (c *Controller) admit(reliable int) error {
	kind := c.cfg.Reliable.Type
	for _, m := range c.roster { // those that there are may be others
		if t := c.typeOf(m.pool); m.tier == tiers.Reliable && m.member() && m.staying() && t.MemoryMiB > 0 {
			if kind.MemoryMiB == 0 || t.MemoryMiB < kind.MemoryMiB {
				kind = t
			}
		}
	}
	usable, need := tiers.UsableMemory(kind.MemoryMiB), tiers.ReliableMemory(&c.cfg.Job.Schema, reliable)
	if reliable < 1 || usable == 0 || need.Total() <= usable {
		return nil
	}
	return fmt.Errorf("%s of %s cannot hold the job alone: each needs up to %s (state %s, undo %s, pending sums %s, contributions %s, two cuts %s) and has %s for it",
		number(reliable, "reliable machine"), kind.Name, size(need.Total()), size(need.Rows), size(need.Undo), size(need.Pending),
		size(need.Staged), size(need.Cuts), size(usable))
}
