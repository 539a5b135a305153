package elasticity

import "time"

// Most events change nothing that anybody waits for: a price that leaves things as they are, a clock that is done, the
// word that a command was obeyed. A run of a hundred machines hears thousands of them a minute, and a simulated one
// nothing else. So the controller rests: when everything that the state asks for has been done, nothing is looked at
// again until an event stirs it or restUntil comes. At rest, advance would do nothing; a test holds it to that.

// advance does whatever the state asks for now. Each part looks at the state alone, so that their order
// matters for promptness only: recovery before everything, then halts, which wait for moves and handovers.
func (c *Controller) advance() {
	before := c.situation()
	c.seenWell = false
	c.checkDuration()
	c.giveUpSilent()
	if c.advanceCrashLoop() {
		c.advanceSave()
		c.charge()
		c.advanceEnd()
		c.silentAt = c.nextSilent()
		c.stirred, c.restUntil = true, c.now // until the checkpoint is saved, each event may be the one that is waited for
		return
	}
	c.advanceAdoption()
	c.secure()
	c.buy()
	c.join()
	c.drain()
	c.trim()
	if c.relayout && !c.now.Before(c.gathering) {
		c.layOut()
	}
	c.advanceRecovery()
	c.spreadRoute()
	c.advanceSettle()
	c.planFlush()
	c.advanceHalt()
	c.advanceBackups()
	c.advanceMoves()
	c.advanceSplits()
	c.advanceCut()
	c.advanceSave()
	c.retire()
	c.charge()
	c.advanceEnd()
	c.advanceScale()
	c.seenWell = false // the last parts too may have changed what is held
	// How much time a flush has left changes by itself: as long as one is wanted there is no rest. Any word may end a
	// hush.
	c.silentAt = c.nextSilent()
	c.stirred = c.situation() != before || c.wantsFlush() || c.hush != nil
	c.restUntil = c.nextDue()
	if !c.now.Before(c.silentAt) {
		// What was done above has shortened a machine's patience (see patience), and it has been silent for longer than that.
		// It is given up now. That ends: every round gives up at least one.
		c.advance()
	}
}

// situation is that part of the state through which one part of advance may give those before it something to do.
type situation struct {
	recovery *recovery
	settle   *settling
	halt     *halting
	cut      *cut
	adopting *adoption
	standing bool // then transient machines may join that wait for it
	done     bool // a roll-back undoes it
	relayout bool
	handing  bool
}

func (c *Controller) situation() situation {
	return situation{c.recovery, c.settle, c.halt, c.cut, c.adopting, c.standing(), c.done(), c.relayout, c.handingOver()}
}

// changes reports whether taking something in has changed the situation, or led to actions.
func (c *Controller) changes(take func()) bool {
	acts, before := c.acts, c.situation()
	take()
	return c.acts != acts || c.situation() != before
}

// Resting reports whether the next event may find nothing to do. A driver may then tell later of progress that does not
// complete the job, as of the time when it was reported: nothing follows from it by itself.
func (c *Controller) Resting() bool { return !c.stirred && !c.planDue() && !c.bareCut() }

// atRest reports whether nothing is due now, but for what the event at hand brings about.
func (c *Controller) atRest() bool { return c.Resting() && !c.relayout && c.now.Before(c.restUntil) }

// CutDue reports whether a cut is due at a time. It may wait for any answer, and is then named after how far the work has come.
func (c *Controller) CutDue(at time.Time) bool { return !at.Before(c.cutDue) }

// NeedsFullStep reports whether an event at a time, whatever it is, makes the controller look at everything: what an event does that
// finds it otherwise is that event's doing alone.
func (c *Controller) NeedsFullStep(at time.Time) bool {
	return c.stirred || !at.Before(c.restUntil) || c.wantPlan && c.mayBuy()
}

// plan asks the policy while everything else rests.
func (c *Controller) plan() {
	acts, relayout := c.acts, c.relayout
	c.buy()
	if c.acts != acts || c.relayout != relayout {
		c.advance()
	}
}

// NextWake is when Step wants to be called again at the latest. It is always later than the last Step: what is due
// has been done, or waits for something else, whose end is an event.
func (c *Controller) NextWake() time.Time {
	wake := c.now.Add(c.cfg.PlanEvery)
	if beat := c.awake.NextBeat(); beat.Before(wake) {
		wake = beat
	}
	for _, t := range [...]time.Time{c.nextPlan, c.restUntil} {
		if t.After(c.now) && t.Before(wake) {
			wake = t
		}
	}
	return wake
}

// lookAgain has somebody looked for by then who is silent for too long.
func (c *Controller) lookAgain(by time.Time) {
	if by.Before(c.silentAt) {
		c.silentAt = by
	}
	if by.Before(c.restUntil) {
		c.restUntil = by
	}
}

// nextDue is when there is something to do although nothing happens.
func (c *Controller) nextDue() time.Time {
	due := c.now.Add(never)
	by := func(t time.Time) {
		if t.After(c.now) && t.Before(due) {
			due = t
		}
	}
	by(c.cutDue)
	by(c.moveRetry)
	by(c.gathering)
	by(c.reliable.after)
	by(c.saveEnds())
	if c.adopting != nil {
		by(c.awake.Due(c.adopting.since, c.adoptWithin()))
	}
	if c.halt != nil {
		by(c.halt.retry)
	}
	if !c.readySince.IsZero() {
		by(c.readySince.Add(c.cfg.JoinWait))
	}
	if limit := c.cfg.Job.Stop.Time; limit > 0 {
		by(c.started.Add(limit))
	}
	if c.cfg.MaxDuration > 0 {
		by(c.started.Add(c.cfg.MaxDuration))
	}
	by(c.silentAt)
	for _, m := range c.roster {
		switch {
		case m.ended && !m.charged:
			by(m.endedAt)
			by(c.awake.Due(m.sawEnd, ChargeWait(c.cfg.Settings)))
		case m.draining && !m.leaving && !m.lost && !m.ended:
			by(c.paidUntil(m).Add(-c.cfg.DrainMargin))
		}
	}
	return due
}

const never = 100 * 365 * 24 * time.Hour

// unjudged is longer than any machine is silent; ten times as long is still a duration.
const unjudged = never / 10
