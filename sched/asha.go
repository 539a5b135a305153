package sched

import (
	"fmt"
	"math"
	"slices"
)

// ASHA is asynchronous successive halving (MLSys 2020, algorithm 2) with pause and promotion: a trial is paused at each rung, and goes on
// when its loss is in the best 1/Factor of those that have come to the rung. A rung's clocks are the driver's to count.
type ASHA struct {
	Factor int // 0 = 3
}

// Name returns "asha".
func (ASHA) Name() string { return "asha" }

// Plan pauses trials at their rungs, promotes from the highest rung down, and starts new ones with the rest.
func (a ASHA) Plan(s State) Plan {
	factor := a.Factor
	if factor == 0 {
		factor = 3
	}
	d := begin(s)
	var promotable []*draft
	for _, c := range d.jobs {
		reached := len(c.Rungs)
		if c.Phase == Queued || reached <= c.Until {
			continue
		}
		rank, of := d.rank(c, s.Past)
		if c.runs() {
			d.release(c)
		}
		c.why = fmt.Sprintf("paused at rung %d: %d of %d there, and the best %d go on", reached-1, rank+1, of, of/factor)
		if rank < of/factor {
			promotable = append(promotable, c)
		}
	}
	slices.SortStableFunc(promotable, func(x, y *draft) int { return len(y.Rungs) - len(x.Rungs) })
	for _, c := range promotable {
		rank, of := d.rank(c, s.Past)
		if !d.resize(c, c.WantWorkers, c.WantServers) {
			c.why = fmt.Sprintf("waits at rung %d, though it is %d of %d there: nothing is free", len(c.Rungs)-1, rank+1, of)
			continue
		}
		c.Until = len(c.Rungs)
		c.why = fmt.Sprintf("goes on from rung %d: %d of %d there, and the best %d do", len(c.Rungs)-1, rank+1, of, of/factor)
	}
	for _, c := range d.queued() {
		if !d.startAsSubmitted(c) {
			d.hold(c, "waits: nothing is free")
			break
		}
	}
	return d.plan(s)
}

// rank is a trial's place among all of its sweep that have come to its rung, those that are no longer there included; a loss that is no number is last.
func (d *drafts) rank(c *draft, pasts map[string][][]float64) (rank, of int) {
	rung, past := len(c.Rungs)-1, pasts[c.Sweep]
	own := c.Rungs[rung]
	before := func(loss float64) bool { return loss < own || math.IsNaN(own) && !math.IsNaN(loss) }
	if rung < len(past) {
		for _, loss := range past[rung] {
			of++
			rank += boolean(before(loss))
		}
	}
	for _, j := range d.jobs {
		if j.Sweep == c.Sweep && len(j.Rungs) > rung {
			of++
			loss := j.Rungs[rung]
			rank += boolean(before(loss) || j != c && !before(loss) && !(own < loss) && !(math.IsNaN(loss) && !math.IsNaN(own)) && j.ID < c.ID)
		}
	}
	return rank, of
}
