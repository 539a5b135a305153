package sched

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Deadline is our own policy: jobs with a deadline get the fewest units that suffice at their pace, the earliest
// deadline first, and the rest is shared as in Marginal. A job that cannot meet its deadline even with all remaining
// units has no preference over those that can.
type Deadline struct{}

// Name returns "deadline".
func (Deadline) Name() string { return "deadline" }

// Plan starts from nothing and moves as few units as possible.
func (Deadline) Plan(s State) Plan {
	d := begin(s)
	t := newTargets(d)
	var due, others []*draft
	for _, c := range d.jobs {
		if c.Deadline > 0 {
			due = append(due, c)
		} else {
			others = append(others, c)
		}
	}
	slices.SortStableFunc(due, func(a, b *draft) int {
		return cmp.Or(cmp.Compare(a.Deadline, b.Deadline), comparePriority(a, b))
	})
	for _, c := range due {
		if !t.meet(c, s.Now) {
			others = append(others, c)
		}
	}
	slices.SortStableFunc(others, comparePriority)
	t.marginal(others, due)
	t.apply()
	return d.plan(s)
}

// meet gives a job the fewest units with which it ends by its deadline: the best split of each number into workers and servers. False = no
// number that fits suffices, or its pace is unknown.
func (t *targets) meet(c *draft, now float64) bool {
	within := (c.Deadline - now) / max(c.Total-c.Done, 1e-9) // seconds per clock
	fit, ok := c.Pace.Fit()
	if !ok {
		return t.try(c, within)
	}
	least := c.leastWorkers() + c.leastServers()
	for units := least; t.fits(c, units+c.Overhead); units++ {
		workers, servers, best := 0, 0, math.Inf(1)
		for sv := c.leastServers(); sv <= units-c.leastWorkers(); sv++ {
			w := units - sv
			if c.WantServers == 0 && sv > 0 || c.MostWorkers > 0 && w > c.MostWorkers {
				continue
			}
			if seconds := fit.Seconds(w, sv); seconds < best {
				workers, servers, best = w, sv, seconds
			}
		}
		if best <= within && t.set(c, workers, servers) {
			c.why = fmt.Sprintf("has %s, the fewest with which it ends by its deadline: in %.0f s, and %.0f s are left", numbers(workers, servers),
				best*(c.Total-c.Done), c.Deadline-now)
			return true
		}
	}
	return false
}

// try is for a job that was measured with one number of units: it keeps them if they suffice for its deadline, otherwise it gets up to
// twice as many workers, to learn the effect of more. False = nothing was measured, or there is no room.
func (t *targets) try(c *draft, within float64) bool {
	if len(c.Pace) == 0 {
		return false
	}
	m := c.Pace[len(c.Pace)-1]
	workers, late := m.Workers, 1/m.Speed > within
	if late {
		workers *= 2
	}
	if c.MostWorkers > 0 {
		workers = min(workers, c.MostWorkers)
	}
	for ; workers >= max(m.Workers, c.leastWorkers()); workers-- {
		if !t.set(c, workers, m.Servers) {
			continue
		}
		c.why = fmt.Sprintf("ends by its deadline with %s", numbers(workers, m.Servers))
		if late {
			c.why = fmt.Sprintf("is late by its pace with %s, and has %s", numbers(m.Workers, m.Servers), numbers(workers, m.Servers))
		}
		return true
	}
	return false
}
