package bidding

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// course is where a job with a deadline stands: one fleet, on spot machines, on demand, or none (Can't Be Late, NSDI 24,
// sections 3.2 and 5.5).
type course struct {
	*gang
	held   holding
	whole  bool
	demand int // the cheapest on-demand candidate; -1 = none
	spot   int // the cheapest spot candidate that has a whole fleet now; -1 = none

	all, work time.Duration // of all work and of what is left, on the on-demand fleet
	left      time.Duration // until the deadline
	starting  time.Duration // until the fleet that is held works
	change    time.Duration // a changeover: from buying a fleet until it works
	atRisk    time.Duration // what may have to be done again when spot machines are lost
	saveEvery time.Duration
}

// margin is kept beside what must not be missed: clocks and bills are whole, machines a little late.
func (c *course) margin() time.Duration { return 10*time.Second + c.change/50 }

// endless is the time until a deadline that there is not.
const endless = 10000 * time.Hour

func newCourse(s State) *course {
	c := &course{gang: newGang(s, BidOnDemand), demand: -1, spot: -1, change: s.Job.Startup, left: endless}
	if !s.Job.Deadline.IsZero() {
		c.left = s.Job.Deadline.Sub(s.Now)
	}
	c.held, c.whole = c.gang.whole()
	byPrice := func(i, j int) int {
		return cmp.Or(cmp.Compare(c.perWork(i), c.perWork(j)), cmp.Compare(c.heldIn(j), c.heldIn(i)), cmp.Compare(i, j))
	}
	slices.SortFunc(c.open, byPrice)
	for _, i := range c.open {
		switch demand := s.Pools[i].OnDemand(); {
		case demand && c.demand < 0:
			c.demand = i
		case !demand && c.spot < 0:
			c.spot = i
		}
	}
	c.all, c.work = c.hours(s.Job.Work), c.hours(s.Job.Work-s.Job.Done)
	if c.whole {
		c.starting = c.startsIn()
	}
	if s.Job.SaveTime > 0 {
		c.saveEvery = CheckpointInterval(s.Job.SaveTime, unknownMTTF)
		c.atRisk = c.saveEvery + 2*s.Job.SaveTime
	}
	return c
}

// hours is how long some work takes the on-demand fleet, or where there is none, the slowest of the others.
func (c *course) hours(work float64) time.Duration {
	rate := 0.0
	for i := range c.Pools {
		r := float64(c.plan.Considered[i].Count) * c.Pools[i].Type.WorkRate()
		if i == c.demand {
			rate = r
			break
		}
		if r > 0 && (rate == 0 || r < rate) {
			rate = r
		}
	}
	if rate == 0 {
		return 0
	}
	return time.Duration(work / rate * float64(time.Hour))
}

// startsIn is how long the fleet that is held will take until it works.
func (c *course) startsIn() (left time.Duration) {
	for _, a := range c.Held {
		if a.Pool == c.Pools[c.held.candidate].Pool && !a.Warned && !a.Draining && a.Ready < a.Count {
			left = max(left, a.Launch.Add(c.change).Sub(c.Now), time.Second)
		}
	}
	return left
}

// slack is the time that may be spent on anything but work.
func (c *course) slack() time.Duration { return c.left - c.work - c.starting - c.margin() }

func (c *course) onSpot() bool { return c.whole && !c.Pools[c.held.candidate].OnDemand() }

func (c *course) onDemand() bool { return c.whole && c.Pools[c.held.candidate].OnDemand() }

// daring says whether spot machines may be bought: if they are lost at the worst time, there is still time to begin on
// demand (Safety Net Rule, section 3.3).
func (c *course) daring() bool { return c.slack() >= 2*c.change+c.atRisk }

// patient says whether there will still be time to begin on demand after waiting for so long.
func (c *course) patient(wait time.Duration) bool { return c.slack()-wait >= c.change }

// affordable says whether the budget allows to do the rest on demand, after so many changeovers more.
func (c *course) affordable(changes int) bool {
	if c.Job.Budget <= 0 {
		return true
	}
	if c.demand < 0 {
		return false
	}
	seen := &c.plan.Considered[c.demand]
	rest := c.work + time.Duration(changes)*c.change + c.Job.Terms.Increment
	return float64(c.Job.Spent)+float64(seen.Price)*float64(seen.Count)*rest.Hours() <= float64(c.Job.Budget)
}

// stay goes on with what is held, and asks again after a time; 0 = when something happens.
func (c *course) stay(why string, again time.Duration) Plan {
	if c.whole {
		c.keep(c.held, c.saveEvery)
		c.plan.Considered[c.held.candidate].Why = why
	} else {
		c.release(-1, why)
		c.explain()
	}
	return c.finish(why, again)
}

// goTo moves to a candidate. Once machines on demand work they may be left again; spot machines are not.
func (c *course) goTo(candidate int, why string) Plan {
	c.move(candidate, why)
	c.plan.SaveEvery = c.saveEvery
	seen := &c.plan.Considered[candidate]
	c.explain()
	again := time.Duration(0)
	if c.Pools[candidate].OnDemand() {
		again = c.change
	}
	return c.finish(fmt.Sprintf("%d %s of %s: %s", seen.Count, plural("machine", seen.Count), seen.Pool, why), again)
}

// pause gives up what is held.
func (c *course) pause(why string, again time.Duration) Plan {
	c.release(-1, why)
	c.explain()
	return c.finish(why, again)
}

func (c *course) finish(why string, again time.Duration) Plan {
	c.plan.Why = why
	if again > 0 {
		c.plan.AskAgain = c.Now.Add(max(again, time.Second)).Truncate(time.Second).Add(time.Second)
	}
	return c.plan
}
