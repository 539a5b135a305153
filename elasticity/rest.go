package elasticity

import (
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/ps"
)

// Most events change nothing of interest: a price that leaves things as they are, a clock that is done, the
// report that a command was obeyed. A run of a hundred machines gets thousands a minute, and a simulated one
// nothing else. So the controller rests: when everything that the state asks for has been done, nothing is looked at
// again until an event gives it something to do or RestUntil comes. At rest, advance would do nothing; a test holds it to that.

// advance does whatever the state asks for now. Each part looks at the state alone, so that their order
// matters for promptness only.
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
		c.step.Pending, c.step.RestUntil = true, c.step.Now // until the checkpoint is saved, each event may be the one that is waited for
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
	f.View.Stale() // the last parts too may have changed the fleet
	again, restless := t.Look()
	c.step.Pending = t.Snapshot() != before || restless
	c.step.RestUntil = c.nextDue()
	if again { // that ends: every round gives up at least one machine
		c.advance()
	}
}

// Resting reports whether the next event may find nothing to do. A driver may then delay reports of progress that does not
// complete the job, as of the time when it was reported: nothing follows from it by itself.
func (c *Controller) Resting() bool { return c.training.Resting() }

// plan asks the policy while everything else rests.
func (c *Controller) plan() {
	acts, relayout, stop := c.step.Acts, c.training.Layout.Due, c.step.Stop
	c.fleet.Buy()
	if c.step.Acts != acts || c.training.Layout.Due != relayout || c.step.Stop != stop {
		c.advance()
	}
}

// NextWake returns the latest time for the next Step. It is always later than the last Step: what is due
// has been done, or waits for something else, whose end is an event.
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

// nextDue returns when there is something to do although nothing happens.
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

// dueBeside calls by with each time at which there is something to do besides cuts although nothing happens.
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

// SkipCuts commits cuts without naming them, for a driver that knows that each would go as the last one did: one is due now, the
// next after every, step clocks further, and each is answered by all within active. It returns how many: those that end before
// a time, and before anything else is due.
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

// unjudged is longer than any machine is silent; ten times as long is still a duration.
const unjudged = step.Never / 10
