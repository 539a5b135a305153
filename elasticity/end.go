package elasticity

import (
	"cmp"

	"github.com/tierml/tierml/internal/journal"
)

// checkLimits ends the run when it reaches its limits of time or money.
func (c *Controller) checkLimits() {
	c.fleet.Spending.Keep()
	lasted := c.step.Now.Sub(c.step.Started)
	if c.step.Enough == "" && c.cfg.Job.Stop.Time > 0 {
		c.step.Enough = c.cfg.Job.Stop.Elapsed(lasted)
	}
	if c.cfg.MaxDuration > 0 && c.step.Stop == "" && lasted >= c.cfg.MaxDuration {
		c.step.Stop = "max_duration " + c.cfg.MaxDuration.String() + " is over"
	}
}

// advanceCrashLoop ends the run if it is in a crash loop: it buys nothing and starts no clock, saves the committed cut
// if possible, and terminates all machines. It reports whether the run is ending for this reason.
func (c *Controller) advanceCrashLoop() bool {
	if c.step.Ending || c.training.Need().TakingOver {
		return false
	}
	if c.crashLoop == nil {
		why, example, loop := c.fleet.Crashes().Loop()
		if !loop {
			return false
		}
		c.crashLoop = &crashLoop{why: why, log: example.Log}
		c.training.Park()
	}
	if c.training.Saves.Current == nil {
		c.step.Fail(c.crashLoop.why)
	}
	return true
}

// advanceEnd finishes once every machine is gone and no launch is unanswered.
func (c *Controller) advanceEnd() {
	if need := c.training.Need(); c.step.Stop != "" && !need.Standing && !need.TakingOver && !c.step.Ending {
		c.step.Outcome = "interrupted"
		c.step.End(c.step.Stop)
	}
	if !c.step.Ending || c.step.Finished || !c.fleet.Over() {
		return
	}
	c.step.Finished = true
	why := cmp.Or(c.step.FailWhy, c.step.Stop, c.step.Enough)
	c.step.Record(func() journal.Entry {
		done := journal.Entry{Kind: journal.Done, Outcome: c.step.Outcome, Clock: int64(c.training.Clocks.Done), Why: why}
		if c.crashLoop != nil && why == c.crashLoop.why {
			done.Log = c.crashLoop.log
		}
		return done
	})
	c.step.Do(Finish{Outcome: c.step.Outcome, Why: why})
}
