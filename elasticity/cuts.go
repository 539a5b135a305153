package elasticity

import (
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// cut is the one cut that is outstanding. It is committed when every owner has taken its name and every backup
// holds it; then it is written down durably, and only then may undo and older cuts go.
type cut struct {
	clock   ps.Clock
	naming  map[ps.ServerID]bool // owners that have not answered
	named   []ps.ServerID        // owners that took the name
	passed  bool                 // an owner was past the clock: a later one must be named
	holding map[ps.ServerID]bool // backups that do not hold it yet
	bytes   int64                // to all backups
	busiest int64                // to the one that took most
	since   time.Time
}

// advanceCut names the next cut when it is due and nothing else is under way. The clock is the next to become
// complete; an owner that is past it already makes us try a later one.
func (c *Controller) advanceCut() {
	if c.cut != nil || c.halt != nil || c.recovery != nil || len(c.moves) > 0 || !c.standing() || c.ending ||
		c.bare() || c.wantsHalt() || c.now.Before(c.cutDue) || c.progress.done >= c.cfg.Job.Clocks || c.unheard() {
		return
	}
	c.nameCut(c.progress.done + 1)
}

// unheard reports whether a backup may not have heard yet of what the next cut builds on. It would say that it holds the cut, and
// lack a part of it, or lose one that counts:
//   - Of a partition that it is to back up from now on (BackUp) it knows nothing, so that what it backs up besides is all to it.
//   - A cut that was committed is to it one that was delivered (CommitCut), which the next delivery replaces.
//   - The name of a cut was taken back when a run was taken over (UnnameCut). Named again, the same clock would be dropped after
//     its owner was told that it is there; and the word that it is held may be of before.
//
// A halt lets everybody park before it names a cut: they have heard all of it by then.
func (c *Controller) unheard() bool {
	return waiting[tiers.BackUp](c) || waiting[tiers.CommitCut](c) || c.unnamed && waiting[tiers.UnnameCut](c)
}

// cutWaited reports whether a cut that is due has waited for the answer at hand.
func (c *Controller) cutWaited() bool { return c.CutDue(c.now) && !c.unheard() }

func (c *Controller) nameCut(clock ps.Clock) {
	c.cut = &cut{clock: clock, naming: map[ps.ServerID]bool{}, holding: map[ps.ServerID]bool{}, since: c.now}
	for _, m := range c.members() {
		if slices.Contains(c.route.Backup, m.id) {
			c.cut.holding[m.id] = true
		}
	}
	owners := c.members()
	slices.SortStableFunc(owners, soonest)
	for _, m := range owners {
		if slices.Contains(c.route.Owner, m.id) {
			c.cut.naming[m.id] = true
			c.send(m.id, tiers.NameCut{Cut: clock})
		}
	}
}

func (c *Controller) takeNamed(m *machine, do tiers.NameCut, a tiers.Answer) {
	if c.cut == nil || c.cut.clock != do.Cut || !c.cut.naming[m.id] {
		return
	}
	delete(c.cut.naming, m.id)
	switch a.Code {
	case tiers.CodeOK:
		c.cut.named = append(c.cut.named, m.id)
	case tiers.CodePassed:
		c.cut.passed = true
	default:
		c.giveUp(m, "it would not take the name of a cut: "+a.Error)
		return
	}
	c.checkCut()
}

func (c *Controller) takeCutHeld(m *machine, r tiers.CutHeld) {
	if c.cut == nil || c.cut.clock != r.Cut || !c.cut.holding[m.id] {
		return
	}
	delete(c.cut.holding, m.id)
	c.cut.bytes += r.Bytes
	c.cut.busiest = max(c.cut.busiest, r.Bytes)
	c.pace.received(r.Bytes, r.Seconds, c.linkOf(m))
	c.checkCut()
}

func (c *Controller) checkCut() {
	if len(c.cut.naming) > 0 {
		return
	}
	if c.cut.passed {
		for _, id := range c.cut.named {
			c.send(id, tiers.UnnameCut{Cut: c.cut.clock})
		}
		// Naming the next clock would race with the same owner again: leave it a clock's head start.
		c.nameCut(min(max(c.cut.clock, c.progress.done)+2, c.cfg.Job.Clocks))
		return
	}
	if len(c.cut.holding) == 0 && (!c.bareCut() || c.progress.done >= c.cut.clock) {
		c.commitCut()
	}
}

// bareCut reports whether the cut under way lacks a backup that would say that it holds it. Only a halt names one then, since no
// backup is bought for a run that ends. The owners have the cut when every split has committed its clock.
func (c *Controller) bareCut() bool { return c.cut != nil && c.halt != nil && c.bare() }

func (c *Controller) commitCut() {
	done := c.cut
	c.cut = nil
	c.committed = done.clock
	if done.clock > c.furthest { // one that was committed before, and lost with its holders, gets nobody further
		c.furthest = done.clock
		if c.crashes.Progressed() {
			c.wantPlan = true
		}
	}
	c.cutReached()
	why := c.nextCut(done.busiest) // otherwise it was due
	if c.halt != nil {
		why = c.halt.why
	}
	c.record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Cut, Clock: int64(done.clock), Bytes: done.bytes, Seconds: c.wall(c.now.Sub(done.since)), Why: why,
		}
	})
	for _, m := range c.reachable() {
		if slices.Contains(c.route.Owner, m.id) || slices.Contains(c.route.Backup, m.id) || m.keeps {
			c.send(m.id, tiers.CommitCut{Cut: done.clock})
			m.keeps = false
		}
	}
	c.saveCut()
	if c.halt != nil {
		c.halt.cutCommitted(c)
	}
}

// cutReached: every split has committed what a committed cut holds, even if its worker did not live to say so.
func (c *Controller) cutReached() {
	for i := range c.splits {
		c.reached(ps.Split(i), c.committed)
	}
	c.checkClock()
}

// dropFromCut goes on without a machine that owned nothing; the loss of an owner takes the cut with it.
func (c *Controller) dropFromCut(id ps.ServerID) {
	if c.cut == nil || !c.cut.naming[id] && !c.cut.holding[id] {
		return
	}
	delete(c.cut.naming, id)
	delete(c.cut.holding, id)
	c.checkCut()
}
