package bidding

import "time"

// UniformProgress is the policy of Can't Be Late (Wu et al., NSDI 24, section 5.2.2) for a job with a deadline:
// expected progress grows linearly from the start to the deadline, ep(t) = t C(0)/R(0). While idle and behind it, the
// job buys on demand, and stays there until it is ahead by two changeovers, cp(t) >= ep(t + 2d) (hysteresis). Otherwise
// spot is taken whenever it is available, even when behind, and kept until it is reclaimed. The safety net takes
// precedence: an idle job whose remaining time is less than the remaining work and two changeovers buys on demand to
// the end. Of several spot pools the cheapest is used. With hourly billing, on-demand machines stay for the hour that
// is paid: a short job that left them earlier paid for two hours instead of one.
type UniformProgress struct{}

// Name returns "uniform-progress".
func (UniformProgress) Name() string { return "uniform-progress" }

// ByRestart marks a policy without a reliable tier.
func (UniformProgress) ByRestart() {}

// Plan follows the paper's rules, in its order.
func (UniformProgress) Plan(s State) Plan {
	c := newCourse(s)
	switch {
	case c.done:
		return c.stay("the work is done", 0)
	case c.onSpot():
		return c.holdSpot()
	case c.onDemand():
		return c.uniformOnDemand()
	case !c.daring() && c.demand >= 0:
		return c.goTo(c.demand, "safety net: two changeovers more, and the deadline would be missed")
	case c.spot >= 0:
		return c.goTo(c.spot, "spot is available")
	}
	behind := c.ahead(0) // negative
	switch {
	case behind < 0 && c.demand >= 0:
		return c.goTo(c.demand, "behind uniform progress")
	case c.demand < 0:
		return c.pause("no fleet is available", 0)
	}
	// An idle job falls behind at the rate of expected progress; and the safety net waits.
	return c.waitAhead(behind)
}

func (c *course) uniformOnDemand() Plan {
	ahead := c.ahead(2 * c.change)
	switch {
	case !c.daring():
		return c.stay("safety net: on demand to the end", 0)
	case ahead < 0:
		// On demand the job gains what it does beyond the expected progress.
		share := c.share()
		if share >= 1 {
			return c.stay("on demand until it is ahead of uniform progress", 0)
		}
		return c.stay("on demand until it is ahead of uniform progress by two changeovers",
			c.starting+time.Duration(float64(-ahead)/(1-share)))
	case c.starting > 0:
		return c.stay("on demand, starting", c.starting)
	case c.paid() > c.ending()+c.margin(): // ours: the paper's machines are billed by the second
		return c.stay("on demand, to the end of the time that is paid for", c.paid()-c.ending()-c.margin())
	case c.spot >= 0:
		return c.goTo(c.spot, "ahead of uniform progress by two changeovers, and spot is available")
	}
	return c.waitAhead(c.ahead(0))
}

// waitAhead waits for spot while a lead lasts and the safety net allows it.
func (c *course) waitAhead(lead time.Duration) Plan {
	return c.pause("ahead of uniform progress: waiting for spot", max(time.Second, min(c.lasts(lead), c.slack()-2*c.change-c.atRisk)))
}

// share returns C(0)/R(0): the part of the time that must be worked.
func (c *course) share() float64 {
	return float64(c.all) / float64(max(c.Job.Deadline.Sub(c.Job.Started), 1))
}

// ahead returns the work by which the job is ahead of uniform progress, as expected some time from now.
func (c *course) ahead(later time.Duration) time.Duration {
	expected := float64(c.Now.Add(later).Sub(c.Job.Started)) * c.share()
	return c.all - c.work - time.Duration(expected)
}

// lasts returns how long a lead lasts without work.
func (c *course) lasts(lead time.Duration) time.Duration {
	return time.Duration(float64(lead) / c.share())
}
