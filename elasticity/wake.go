package elasticity

import "time"

// NextWake is when Step wants to be called again at the latest. It is always later than the last Step: what is due
// has been done, or waits for something else, whose end is an event.
func (c *Controller) NextWake() time.Time {
	wake := c.now.Add(c.cfg.PlanEvery)
	by := func(t time.Time) {
		if t.After(c.now) && t.Before(wake) {
			wake = t
		}
	}
	by(c.nextPlan)
	by(c.cutDue)
	by(c.moveRetry)
	by(c.gathering)
	by(c.reliable.after)
	if c.halt != nil {
		by(c.halt.retry)
	}
	if !c.readySince.IsZero() {
		by(c.readySince.Add(c.cfg.JoinWait))
	}
	if c.cfg.MaxDuration > 0 {
		by(c.started.Add(c.cfg.MaxDuration))
	}
	for _, m := range c.machines {
		c.wakeFor(m, by)
	}
	return wake
}

// wakeFor names the times at which something is to be decided about a machine.
func (c *Controller) wakeFor(m *machine, by func(time.Time)) {
	switch {
	case m.ended && !m.charged:
		by(m.endedAt)
		by(m.endedAt.Add(chargeWait))
	case m.lost || m.ended:
	default:
		if m.address == "" {
			by(m.heard.Add(c.cfg.BootWithin))
			return
		}
		by(m.heard.Add(c.cfg.DeadAfter))
		if !m.brokenAt.IsZero() {
			by(m.brokenAt.Add(c.cfg.BrokenAfter))
		}
		if m.draining && !m.leaving {
			by(c.paidUntil(m).Add(-c.cfg.DrainMargin))
		}
	}
}
