package elasticity

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/tierml/tierml/tiers"
)

// A pause is a request like those for other numbers: all transient machines are given up, training rests at a committed cut that the
// reliable machines hold, and this controller waits. Afterwards, the numbers set before the pause apply again. A spending limit does less
// (budget.go): the reliable machines, which cost the same, continue to train.

// pause returns the target of a paused run, or why it cannot be paused.
func (c *Controller) pause(e ScaleWanted) (target, error) {
	switch {
	case e.Resume || e.Reset || e.Workers != 0 || e.Servers != 0 || e.Reliable != 0:
		return target{}, errors.New("a pause cannot be combined with other numbers")
	case c.cfg.Reliable.Count == 0:
		return target{}, errors.New("a run without reliable machines has nowhere to keep its state: end it cleanly, and continue from its checkpoint with --resume")
	}
	next := c.target
	switch {
	case next.paused == "":
		next.paused, next.scheduled = cmp.Or(e.By, "a user asked"), e.Scheduled
	case next.scheduled && !e.Scheduled: // only a person resumes a person's pause
		next.paused, next.scheduled = cmp.Or(e.By, "a user asked"), false
	}
	return next, nil
}

// errOthersPause refuses to resume a run that another party paused.
func errOthersPause(t target) error {
	if t.scheduled {
		return fmt.Errorf("a scheduler has paused the run (%s) and will resume it; to pause it until you resume it, pause it yourself", t.paused)
	}
	return fmt.Errorf("a user paused the run (%s), and only a user can resume it", t.paused)
}

// atRest reports whether a pause is complete: training rests, and every transient machine is being terminated. An unanswered launch may
// still supply one. It does not wait for the provider to confirm that a machine has ended: that can take seconds, and changes nothing.
func (c *Controller) atRest() bool {
	if !c.training.Pause.Still() || c.fleet.Switching != nil || c.fleet.Awaiting() {
		return false
	}
	for _, m := range c.fleet.Roster.List {
		if m.Tier == tiers.Transient && !m.Terminating && !m.Ended {
			return false
		}
	}
	return true
}
