package elasticity

import "time"

// checkRest is the slow twin of what the controller keeps, before every step of every world of these tests: counts are
// right, and a controller
// that rests has nothing to do when it looks at everything all the same.
func (w *world) checkRest() {
	c := w.ctrl
	for id, m := range c.machines {
		held := 0
		for _, s := range c.splits {
			if s.holder == id {
				held++
			}
		}
		if held != m.splits {
			w.failf("%s holds %d splits, counted as %d", id, held, m.splits)
		}
	}
	if c.started.IsZero() || c.finished || c.stirred || !w.time().Before(c.restUntil) {
		return
	}
	before, saved := c.situation(), *c
	c.out, c.now, c.silentAt = nil, w.time(), time.Time{}
	c.awake.Step(w.time())
	c.wantPlan, c.nextPlan = false, w.time().Add(time.Hour) // prices may ask for a plan at rest
	c.advance()
	switch {
	case len(c.out) > 0:
		w.failf("the controller rests until %v, and yet there is to do: %T %+v", saved.restUntil.Sub(epoch), c.out[0], c.out[0])
	case c.situation() != before || c.stirred:
		w.failf("the controller rests until %v, and yet something changes: from %+v to %+v", saved.restUntil.Sub(epoch), before, c.situation())
	}
	c.out, c.now, c.wantPlan, c.nextPlan = saved.out, saved.now, saved.wantPlan, saved.nextPlan
	c.awake, c.silentAt, c.restUntil = saved.awake, saved.silentAt, saved.restUntil
}
