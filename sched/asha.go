package sched

import (
	"cmp"
	"fmt"
	"slices"
)

// ASHA is asynchronous successive halving (MLSys 2020, algorithm 2) with pause and promotion: a trial is paused at each rung, and continues
// when its loss is in the best 1/Factor of those that have reached the rung. The driver counts a rung's clocks.
//
// If a sweep's number of trials is known, a paused trial is killed once it cannot be among the best whatever the remaining ones report; if
// all have reported and 1/Factor rounds to none, the best one continues.
type ASHA struct {
	Factor int // 0 = 3
	// Ceil rounds the best 1/Factor up once two trials are at a rung, like Syne Tune's quantiles; the paper rounds down.
	Ceil bool
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
	ranks := d.ranks(s.Past, func(there int) int {
		if a.Ceil && there > 1 {
			there += factor - 1
		}
		return there / factor
	})
	var promotable []*draft
	for _, c := range d.jobs {
		reached := len(c.Rungs)
		if c.Phase == Queued || reached <= c.Until {
			continue
		}
		r := ranks[c.ID]
		if r.out {
			d.kill(c, fmt.Sprintf("killed at rung %d: %d of %d there, and %d more can come", reached-1, r.rank+1, r.of, r.toCome))
			continue
		}
		if c.runs() {
			d.release(c)
		}
		c.why = fmt.Sprintf("paused at rung %d: %d of %d there, and the best %d go on", reached-1, r.rank+1, r.of, r.best)
		if r.rank < r.best {
			promotable = append(promotable, c)
		}
	}
	slices.SortStableFunc(promotable, func(x, y *draft) int { return cmp.Or(len(y.Rungs)-len(x.Rungs), ranks[x.ID].rank-ranks[y.ID].rank) })
	for _, c := range promotable {
		r := ranks[c.ID]
		if !d.resize(c, c.WantWorkers, c.WantServers) {
			c.why = fmt.Sprintf("waits at rung %d, though it is %d of %d there: nothing is free", len(c.Rungs)-1, r.rank+1, r.of)
			continue
		}
		c.Until = len(c.Rungs)
		c.why = fmt.Sprintf("continues from rung %d: %d of %d there, and the best %d do", len(c.Rungs)-1, r.rank+1, r.of, r.best)
	}
	for _, c := range d.queued() {
		if !d.startAsSubmitted(c) {
			d.hold(c, "waits: nothing is free")
			break
		}
	}
	if s.Waiting > 0 {
		d.makeRoom()
	}
	return d.plan(s)
}

// makeRoom handles the case that nothing runs and others wait for the end of a paused trial: it kills the worst trial, or lets a single one
// continue.
func (d *drafts) makeRoom() {
	var worst *draft
	paused := 0
	for _, c := range d.jobs {
		if c.killed || c.Workers > 0 || len(c.Rungs) == 0 {
			return
		}
		paused++
		if worst == nil || cmp.Or(cmp.Compare(len(c.Rungs), len(worst.Rungs)), worseOf(&c.Job, &worst.Job, c.Rungs[len(c.Rungs)-1], worst.Rungs[len(worst.Rungs)-1])) < 0 {
			worst = c
		}
	}
	switch {
	case paused > 1:
		d.kill(worst, "killed: every job with a run is paused, other trials wait for the end of one, and it is the worst")
	case paused == 1 && d.resize(worst, worst.WantWorkers, worst.WantServers):
		worst.Until, worst.why = len(worst.Rungs), "continues: other trials wait for its end, and none is there to compare it with"
	}
}

// rank is a trial's place at its last rung, from 0, the best.
type rank struct {
	rank, of int  // number of trials of its sweep that have reached it, including finished ones
	best     int  // how many continue
	toCome   int  // at most, if the number of trials is known
	out      bool // it cannot continue
}

// ranks returns the ranks of all trials that have reached a rung; goOn returns how many continue of a given number.
func (d *drafts) ranks(past []Job, goOn func(there int) int) map[string]rank {
	all := map[string]rank{}
	done := map[string]bool{}
	for _, c := range d.jobs {
		if len(c.Rungs) == 0 || done[c.Sweep] {
			continue
		}
		done[c.Sweep] = true
		trials := d.trialsOf(c.Sweep, past)
		// Trials that may still report a loss at this rung or an earlier one: hidden ones, and jobs that can continue.
		toCome := c.Trials - len(trials)
		for _, j := range trials {
			toCome += boolean(len(j.Rungs) == 0 && d.draftOf(j.ID) != nil)
		}
		for rung := 0; ; rung++ {
			there := trials.at(rung)
			if len(there) == 0 {
				break
			}
			best := goOn(len(there))
			if c.Trials > 0 && toCome <= 0 {
				best = max(best, 1)
			}
			more := toCome
			for i, j := range there {
				r := rank{rank: len(there) - 1 - i, of: len(there), best: best, toCome: toCome}
				r.out = c.Trials > 0 && r.rank >= max(goOn(len(there)+toCome), 1)
				if len(j.Rungs) > rung+1 {
					continue
				}
				all[j.ID] = r
				more += boolean(!r.out && d.draftOf(j.ID) != nil)
			}
			toCome = more
		}
	}
	return all
}
