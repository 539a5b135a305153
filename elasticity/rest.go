package elasticity

import (
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/ps"
)

// Most events change nothing of interest: a price that leaves things as they are, a completed clock, the report that a command was
// executed. A run of a hundred machines gets thousands a minute, and a simulated one nothing else. So the controller rests: when everything
// that the state requires has been done, it examines nothing until an event gives it something to do or RestUntil arrives. At rest, advance
// would do nothing, which a test verifies.

// advance does whatever the state now requires. Each part depends only on the state, so that their order affects only latency.
func (c *Controller) advance() {
	f, t := c.fleet, c.training
	before := t.Snapshot()
	f.View.Stale()
	c.checkLimits()
	t.Silence.GiveUp()
	if c.advanceCrashLoop() {
		t.Saves.Advance()
		f.Charge()
		c.advanceEnd()
		t.Look()
		c.step.Pending, c.step.RestUntil = true, c.step.Now // until the checkpoint is saved, any event may be the expected one
		return
	}
	t.AdvanceAdoption()
	c.advanceCount()
	f.Secure()
	f.Buy()
	t.Join()
	f.Drain()
	f.Trim()
	t.Advance()
	f.Retire()
	f.Charge()
	c.advanceEnd()
	c.advanceScale()
	f.View.Stale() // the last parts may have changed the fleet, too
	again, restless := t.Look()
	c.step.Pending = t.Snapshot() != before || restless
	c.step.RestUntil = c.nextDue()
	if again { // this terminates: every round gives up at least one machine
		c.advance()
	}
}

// Resting reports whether the next event may find nothing to do. A driver may then delay progress reports that do not complete the job,
// keeping their timestamps: they have no consequences by themselves.
func (c *Controller) Resting() bool { return c.training.Resting() }

// plan consults the policy while everything else rests.
func (c *Controller) plan() {
	acts, relayout, stop := c.step.Acts, c.training.Layout.Due, c.step.Stop
	c.fleet.Buy()
	if c.step.Acts != acts || c.training.Layout.Due != relayout || c.step.Stop != stop {
		c.advance()
	}
}

// NextWake returns the latest time for the next Step. It is always later than the last Step: anything due has been done, or waits for an
// event.
func (c *Controller) NextWake() time.Time {
	now := c.step.Now
	wake := c.fleet.LatestWake()
	if beat := c.step.Awake.NextBeat(); beat.Before(wake) {
		wake = beat
	}
	for _, t := range [...]time.Time{c.fleet.NextPlan, c.step.RestUntil} {
		if t.After(now) && t.Before(wake) {
			wake = t
		}
	}
	return wake
}

// nextDue returns when something is due even without events.
func (c *Controller) nextDue() time.Time {
	now := c.step.Now
	due := now.Add(step.Never)
	by := func(t time.Time) {
		if t.After(now) && t.Before(due) {
			due = t
		}
	}
	by(c.training.Cuts.Due)
	c.dueBeside(by)
	return due
}

// dueBeside calls by with each time at which something other than cuts is due even without events.
func (c *Controller) dueBeside(by func(time.Time)) {
	c.training.NextDue(by)
	c.fleet.NextDue(by)
	if limit := c.cfg.Job.Stop.Time; limit > 0 {
		by(c.step.Started.Add(limit))
	}
	if c.cfg.MaxDuration > 0 {
		by(c.step.Started.Add(c.cfg.MaxDuration))
	}
}

// SkipCuts commits cuts without naming them, for a driver that knows that each would proceed like the last one: one is due now, the next
// after every, step clocks further, and each is answered by all within active. It returns their number: those that end before a time, and
// before anything else is due.
func (c *Controller) SkipCuts(now, before time.Time, every, active time.Duration, clocks ps.Clock) (n int) {
	if c.cfg.Grows || !c.Resting() || !c.step.RestUntil.Equal(now) || !c.training.OnlyCuts(now) {
		return 0
	}
	by := func(t time.Time) {
		if t.After(c.step.Now) && t.Before(before) {
			before = t
		}
	}
	by(c.fleet.NextPlan)
	c.dueBeside(by)
	if room := before.Sub(now) - active; room > 0 {
		n = int((room-1)/every) + 1
		c.training.Cuts.Skip(n, every, clocks)
		c.step.RestUntil = c.nextDue()
	}
	return n
}

// unjudged exceeds any machine's silence; ten times it is still a valid duration.
const unjudged = step.Never / 10
