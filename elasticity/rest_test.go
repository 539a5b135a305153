package elasticity

import (
	"slices"
	"time"
)

// checkRest recomputes the controller's cached state, before every step of every world of these tests: counts are right, the policy sees
// the machines as they are, and a resting controller has nothing to do even if it looks at everything.
func (w *world) checkRest() {
	c := w.ctrl
	kept := slices.Clone(c.State().Held)
	c.fleet.View.Stale()
	if seen := c.State().Held; !slices.Equal(kept, seen) {
		w.failf("the policy sees %+v held, and there is %+v", kept, seen)
	}
	for id, m := range c.training.Nodes.ByID {
		held := 0
		for _, s := range c.training.Layout.Splits {
			if s.Holder == id {
				held++
			}
		}
		if held != m.Splits {
			w.failf("%s holds %d splits, counted as %d", id, held, m.Splits)
		}
	}
	if c.step.Started.IsZero() || c.step.Finished || c.step.Pending || !w.time().Before(c.step.RestUntil) {
		return
	}
	before, next, plan, silent := c.training.Snapshot(), c.fleet.NextPlan, c.fleet.WantPlan, c.training.Silence.Next
	saved := *c.step
	c.step.Begin(w.time())
	c.training.Silence.Next = time.Time{}
	c.fleet.WantPlan, c.fleet.NextPlan = false, w.time().Add(time.Hour) // prices may ask for a plan at rest
	c.advance()
	switch {
	case len(c.step.Actions()) > 0:
		w.failf("the controller rests until %v, and yet there is to do: %T %+v", saved.RestUntil.Sub(epoch), c.step.Actions()[0], c.step.Actions()[0])
	case c.training.Snapshot() != before || c.step.Pending:
		w.failf("the controller rests until %v, and yet something changes: from %+v to %+v", saved.RestUntil.Sub(epoch), before, c.training.Snapshot())
	}
	*c.step, c.fleet.WantPlan, c.fleet.NextPlan, c.training.Silence.Next = saved, plan, next, silent
}
