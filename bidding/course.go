package bidding

import (
	"cmp"
	"fmt"
	"time"
)

// course is the state of a job with a deadline: one fleet, on spot machines, on demand, or none (Can't Be Late, NSDI
// 24, sections 3.2 and 5.5). It keeps the following promise, whatever a strategy advises:
//
//   - daring: spot is bought only with slack for two changeovers and a first checkpoint.
//   - holdSpot: spot is given up at the last moment from which on demand still meets the deadline.
//   - patient: nothing is waited for that would leave no time to start on demand.
//   - affordable: the budget goes before the deadline.
type course struct {
	*gang
	held   holding
	whole  bool
	demand int // the cheapest on-demand candidate; -1 = none
	spot   int // the cheapest spot candidate with a whole fleet available now; -1 = none

	all time.Duration // for all work, on the on-demand fleet
	// work is the time for the remaining work, on the on-demand fleet if one is held. Unsaved work of spot machines
	// counts as remaining: see holdSpot.
	work      time.Duration
	done      bool
	left      time.Duration // until the deadline
	starting  time.Duration // until the held fleet works
	change    time.Duration // a changeover: from buying a fleet until it works
	atRisk    time.Duration // the longest time on spot machines before their first save, without the changeovers
	saveEvery time.Duration // on spot machines
}

// No deadline is missed. More exactly: if an on-demand fleet can be bought at any time and is kept, machines take no
// longer than Job.Startup and work at their declared rates, a checkpoint takes no longer than Job.SaveTime, and the
// deadline leaves time for one changeover and the work at the start, then the work is done and the machines are gone by
// the deadline.
//
// Proof. Let needs(w) be the time that w of work takes from nothing held: a changeover (the provider's answer, boot,
// joining, loading, reading the checkpoint), the work, the job's checkpoints on demand (saves), the last checkpoint and
// the end of the machines (ending), and margin for rounding: times to whole seconds, AskAgain by up to two more. Work
// is counted in whole clocks, rounded down, so that the remaining work is never underestimated. Let W be the work that
// no checkpoint has. The invariant, at any time:
//
//	left >= needs(W), unless an on-demand fleet is held; then left >= needs(w) less the changeover, w being what it has not done.
//
// With slack = left - needs(W) + changeover, the invariant is slack >= changeover:
//   - On demand slack is constant: nothing but work takes time there, which needs has in it. An on-demand fleet is left for another or
//     for nothing only if slack exceeds a changeover by a checkpoint, which is taken first (then W = w), by Lag, and by what follows.
//   - Nothing held, nothing is waited for longer than until slack is a changeover (patient, pause). Then on demand is bought.
//   - Spot machines are bought only with two changeovers (daring). They may be lost at any moment, which takes the job back to W. Until
//     then W falls and left falls. The policy has itself called at the moment at which left = needs(W) + SaveTime + Lag (holdSpot): then
//     they are given up. That takes a checkpoint, which may fail, and Lag until its failure is noticed; the purchase comes at once or,
//     where limits.per_hour has no room for both fleets, after that. So left >= needs(W) still when only that remains. A purchase
//     that is not answered puts that moment off by no more than the changeover that it is a part of.
//
// Estimates and strategies play no part in it.

// margin is for rounding.
func (c *course) margin() time.Duration { return 10*time.Second + c.change/50 }

// saves returns the time for the job's checkpoints while it works on demand for some time.
func (c *course) saves(work time.Duration) time.Duration {
	if c.Job.SaveEvery <= 0 {
		return 0
	}
	return (work/c.Job.SaveEvery + 1) * c.Job.SaveTime
}

// ending returns the time from the end of the work until it is saved and the machines are gone.
func (c *course) ending() time.Duration { return c.Job.SaveTime + c.Job.Lag }

// endless replaces the time until the deadline if there is none.
const endless = 10000 * time.Hour

func newCourse(s State) *course {
	c := &course{gang: newGang(s, BidOnDemand), demand: -1, spot: -1, change: s.Job.Startup, left: endless}
	if !s.Job.Deadline.IsZero() {
		c.left = s.Job.Deadline.Sub(s.Now)
	}
	c.held, c.whole = c.gang.whole()
	byPrice := func(i, j int) int {
		return cmp.Or(cmp.Compare(c.rest(i), c.rest(j)), cmp.Compare(c.heldIn(j), c.heldIn(i)), cmp.Compare(i, j))
	}
	for _, i := range c.open {
		best := &c.spot
		if s.Pools[i].OnDemand() {
			best = &c.demand
		}
		if *best < 0 || byPrice(i, *best) < 0 {
			*best = i
		}
	}
	c.all, c.done = c.hours(s.Job.Work), s.Job.Done >= s.Job.Work
	if c.spot >= 0 && (c.twice(c.spot) || c.tooFar()) {
		c.spot = -1
	}
	if c.work = c.hours(s.Job.Work - s.Job.Saved); c.onDemand() {
		c.work = c.hours(s.Job.Work - s.Job.Done)
	}
	if c.whole {
		c.starting = c.startsIn()
	}
	if s.Job.SaveTime > 0 {
		c.saveEvery = CheckpointInterval(s.Job.SaveTime, unknownMTTF)
		if s.Job.SaveEvery > 0 {
			c.saveEvery = min(c.saveEvery, s.Job.SaveEvery)
		}
	}
	c.atRisk = c.saveEvery + 3*s.Job.SaveTime + 2*s.Job.Lag
	return c
}

// twice reports whether a pool's spot machines are too expensive to try: if whole hours are billed, and all the work
// takes one on demand, a job that must leave them for its deadline pays for an hour of each. No run may cost more than
// 1.5 times its cost on demand.
func (c *course) twice(spot int) bool {
	return c.demand >= 0 && c.change+c.all+c.ending() <= c.Job.Terms.Increment && c.perWork(spot) > c.perWork(c.demand)/2
}

// tooFar reports whether all spot machines are in other regions, and fetching the state costs more than they save.
func (c *course) tooFar() bool {
	return c.demand >= 0 && c.Job.moving(c.Pools[c.spot].Pool) > 0 && c.rest(c.spot) >= c.rest(c.demand)
}

// hours returns how long some work takes: on the held on-demand fleet, on the one that would be bought, or otherwise on
// the slowest fleet.
func (c *course) hours(work float64) time.Duration {
	rate := func(i int) float64 { return float64(c.plan.Considered[i].Count) * c.Pools[i].Type.WorkRate() }
	slowest := 0.0
	switch {
	case c.onDemand():
		slowest = rate(c.held.candidate)
	case c.demand >= 0:
		slowest = rate(c.demand)
	default:
		slowest = c.slowest(rate)
	}
	if slowest == 0 {
		return 0
	}
	return time.Duration(work / slowest * float64(time.Hour))
}

// startsIn returns the time until the held fleet works.
func (c *course) startsIn() (left time.Duration) {
	for _, a := range c.Held {
		if a.Pool == c.Pools[c.held.candidate].Pool && !a.Warned && !a.Draining && a.Ready < a.Count {
			left = max(left, a.Launch.Add(c.change).Sub(c.Now), time.Second)
		}
	}
	return left
}

// slack returns the time that may be spent on anything other than the remaining work on demand, with its overheads.
func (c *course) slack() time.Duration {
	return c.left - c.work - c.starting - c.saves(c.work) - c.ending() - c.margin()
}

func (c *course) onSpot() bool { return c.whole && !c.Pools[c.held.candidate].OnDemand() }

func (c *course) onDemand() bool { return c.whole && c.Pools[c.held.candidate].OnDemand() }

// daring reports whether spot machines may be bought: if they are lost at the worst time, there is still time to begin
// on demand (Safety Net Rule, section 3.3), and otherwise for a first checkpoint.
func (c *course) daring() bool { return c.slack() >= 2*c.change+c.atRisk }

// patient reports whether there will still be time to begin on demand after a wait; a change from on demand includes a
// checkpoint before it.
func (c *course) patient(wait time.Duration) bool {
	if c.onDemand() {
		wait += c.Job.SaveTime + c.Job.Lag
	}
	return c.slack()-wait >= c.change
}

// holdSpot keeps spot machines until they are reclaimed, or until their loss could miss the deadline.
func (c *course) holdSpot() Plan {
	const why = "spot is kept until it is taken away"
	if c.demand < 0 || !c.affordable(1) {
		return c.stay(why, 0)
	}
	c.starting = 0 // losing them on the way is no better than losing them at work
	safe := c.slack() - c.change - c.Job.SaveTime - c.Job.Lag
	if safe > 0 {
		return c.stay(why, safe)
	}
	unsaved := c.hours(c.Job.Done - c.Job.Saved)
	if c.slack()+unsaved >= c.change+c.Job.SaveTime {
		return c.goTo(c.demand, "safety net: losing these machines would miss the deadline")
	}
	return c.stay(why+": on demand would be too late", 0)
}

// affordable reports whether the budget covers the rest on demand, after this many more changeovers.
func (c *course) affordable(changes int) bool {
	if c.Job.Budget <= 0 {
		return true
	}
	if c.demand < 0 {
		return false
	}
	seen := &c.plan.Considered[c.demand]
	rest := c.work + time.Duration(changes)*c.change + c.Job.Terms.Increment
	spent := c.Job.Spent + c.Job.moving(seen.Pool)
	return float64(spent)+float64(seen.Price)*float64(seen.Count)*rest.Hours() <= float64(c.Job.Budget)
}

// stay keeps what is held, and decides again after a time; 0 = when something happens.
func (c *course) stay(why string, again time.Duration) Plan {
	if c.whole {
		c.keep(c.held, c.savesIn(c.held.candidate))
		c.plan.Considered[c.held.candidate].Why = why
	} else {
		c.release(-1, why)
		c.explain()
	}
	return c.finish(why, again)
}

// savesIn returns the interval of checkpoints on a candidate's machines: none on demand, as they stay.
func (c *course) savesIn(candidate int) time.Duration {
	if c.Pools[candidate].OnDemand() {
		return 0
	}
	return c.saveEvery
}

// goTo moves to a candidate. Once machines work, it decides again: on demand, whether to leave; on spot, how long to
// stay.
func (c *course) goTo(candidate int, why string) Plan {
	c.move(candidate, why)
	c.plan.SaveEvery = c.savesIn(candidate)
	seen := &c.plan.Considered[candidate]
	c.explain()
	return c.finish(fmt.Sprintf("%d %s of %s: %s", seen.Count, plural("machine", seen.Count), seen.Pool, why), c.change)
}

// pause releases what is held.
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
