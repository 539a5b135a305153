package training

import (
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Pausing stops a run at a committed cut that the reliable machines hold, with all splits. A halt gets there: it parks all workers, and
// backups take over what transient machines served, so that no partition has to be copied; then the transient machines hand over their
// splits, which no longer change, and leave. No worker begins a clock beyond the cut until Why is empty again.
//
// Invariant: while AtRest, every member's worker is bounded by the committed cut. Anything that breaks it resumes training: a roll-back, a
// machine that joins, a partition without a backup. Training continues until everything is in order, and a new halt follows. A controller
// that takes over a paused run does the same.
type Pausing struct {
	t      *Training
	Why    string // empty = the run is not paused
	AtRest bool
}

// wanted reports whether a pause should now bring all work to rest. Departing machines must be known, since what they serve does not return
// to them, and every partition must have its backup.
func (p *Pausing) wanted() bool {
	if p.Why == "" || p.AtRest || p.t.Layout.Bare() || p.t.Layout.straying() {
		return false
	}
	reliable := false
	for _, m := range p.t.Nodes.Roster {
		if m.Member() && m.Staying() {
			if m.Tier != tiers.Reliable {
				return false
			}
			reliable = true
		}
	}
	return reliable
}

// away reports whether a partition is served by a transient machine and has a backup that can take over.
func (la *layout) away(p ps.Partition) bool {
	m := la.nodes.ByID[la.Route.Owner[p]]
	return m != nil && m.Tier != tiers.Reliable && m.ID != la.Route.Backup[p] && la.Route.Backup[p] != ""
}

// rest handles the moment when all workers have stopped at the committed cut. The cut is saved if it is fresh and the job takes
// checkpoints.
func (p *Pausing) rest(fresh bool) {
	p.AtRest = true
	if how := &p.t.cfg.Checkpoints; fresh && (how.Every > 0 || how.EveryClocks > 0) {
		p.t.Saves.saveCommitted(p.t.Cuts.Committed)
	}
	p.t.layOut()
}

// wake resumes work.
func (p *Pausing) wake() {
	if !p.AtRest {
		return
	}
	p.AtRest = false
	p.t.Cuts.Due = p.t.Now.Add(p.t.cfg.CutEvery)
	p.t.Clocks.since = p.t.Now
	unparkAll(p.t, every)
	p.t.layOut()
}

// advance resumes training when the pause has ended, or to make repairs that need work.
func (p *Pausing) advance() {
	if p.AtRest && (p.Why == "" || p.t.Layout.Bare() || p.t.Layout.straying()) && p.t.Recovery == nil && p.t.Stop == "" && !p.t.Ending {
		p.wake()
	}
}

// Still reports whether a paused run is at rest, with its state only in the reliable tier.
func (p *Pausing) Still() bool { return p.AtRest && p.t.Settled() }
