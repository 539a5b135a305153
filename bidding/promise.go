package bidding

import (
	"math"
	"time"

	"github.com/tierml/tierml/market"
)

// No run costs more than 1.5 times the cost of the same work on demand, whatever the market does and whatever the
// policy. This file enforces that for all policies, from what is spent, not from what is expected:
//
//	spent + what the rest costs on demand, started over <= dearest x what all of it costs on demand
//
// holds when a job begins. Safe work moves money from the second term to the first, at no more than its price there.
// Anything that raises the sum is paid for nothing: machines that start, save, wait, or lose their work. So the sum is
// checked before transient machines are bought, before machines on demand are left, and, while transient ones are held,
// before any cost that they can cause would break it. Then the rest is done on demand, where the sum stays the same.
//
// Nothing is promised if no on-demand machines may be bought, or not within the budget; if the reliable tier costs
// nearly half as much as the fleet; for jobs that take less time on demand than machines take to come and go; and for
// programs, whose policies count what an eviction undoes.

// dearest leaves room below 1.5 for rounding, and for delays that the job does not know.
const dearest = 1.4

// joining is how long a working machine may take to get its share of the work, after its start.
const joining = 2 * time.Minute

// promise is the state of a job's promise.
type promise struct {
	*State
	whole  bool // less than the whole fleet is useless
	demand int  // the on-demand candidate with the cheapest work
	most   float64
	rest   float64       // cost of the rest on demand
	leave  time.Duration // from the decision to buy on demand until transient machines are gone
}

// keepPromise returns the policy's plan, or one that keeps the promise if that plan would risk it. Wanted is the whole
// fleet, even at the end of a job.
func keepPromise(p Policy, s *State, wanted Want) (plan Plan) {
	if s.StepsOnly && p == Policy(OnDemand{}) {
		return Plan{Settled: s.Now.Add(endless)}
	}
	if p == Policy(OnDemand{}) || s.Job.Program || s.Due == nil || s.Job.Work <= 0 {
		return p.Plan(*s)
	}
	afforded := s.Now.Before(s.Afforded)
	if afforded {
		if plan = p.Plan(*s); !plan.steps() {
			plan.afford(s.Afforded)
			return plan
		}
	}
	pr, promised := promiseOf(p, s, wanted)
	if !promised {
		if !afforded {
			plan = p.Plan(*s)
		}
		return plan
	}
	onDemand, ready, only := pr.onDemand()
	settled := only && onDemand >= s.Want.total()
	spent := pr.spent()
	short := pr.most-pr.rest-spent < 0 // even if nothing more is bought
	if until := pr.settled(p); settled && ready && short && s.StepsOnly && until.After(s.Now) {
		plan = pr.goOnDemand()
		plan.Settled = until
		return plan
	}
	finishes := short && pr.finishes()
	if !afforded {
		// TierML is known to request nothing while it holds what it wants.
		if _, tierml := p.(TierML); short && !finishes && s.StepsOnly && (!settled || tierml && ready) {
			return pr.goOnDemand() // whatever the policy's plan is
		}
		plan = p.Plan(*s)
	}
	if settled && !plan.steps() {
		return plan
	}
	room := pr.most - pr.rest - pr.withPurchases(spent, &plan)
	switch {
	case room >= 0:
	case finishes || !short && pr.finishes(): // with the held machines, and none to replace them
		plan.Acquire, plan.Release, plan.Switch = nil, nil, nil
	default:
		return pr.goOnDemand()
	}
	plan.afford(pr.paidUntil(room, &plan))
	return plan
}

// steps reports whether there is anything to buy or to release.
func (p *Plan) steps() bool { return len(p.Acquire) > 0 || len(p.Release) > 0 }

// afford has Plan run again when spending must be checked.
func (p *Plan) afford(until time.Time) {
	if p.Afforded = until; p.AskAgain.IsZero() || until.Before(p.AskAgain) {
		p.AskAgain = until
	}
}

// promiseOf returns false if nothing is promised.
func promiseOf(p Policy, s *State, wanted Want) (pr promise, promised bool) {
	pr = promise{State: s, whole: whole(p, s), demand: -1, leave: s.Job.SaveTime + s.Job.Lag + s.Job.Leave}
	perWork := math.Inf(1)
	for i := range s.Pools {
		c := &s.Pools[i]
		seen := Considered{Price: c.Type.OnDemand, HasPrice: true, OnDemand: c.Type.OnDemand, Count: s.Want.machines(s.Want.total(), c.Type)}
		if !c.OnDemand() || seen.Count == 0 || c.Type.WorkRate() <= 0 || whyNot(c, &seen, *s) != "" {
			continue
		}
		if w := float64(c.Type.OnDemand) / c.Type.WorkRate(); w < perWork {
			pr.demand, perWork = i, w
		}
	}
	if pr.demand < 0 {
		return pr, false
	}
	if !pr.whole {
		pr.leave += s.Job.Startup + joining
	}
	if s.Job.Work < pr.leave.Hours()*pr.rate(wanted) {
		return pr, false
	}
	pr.most = dearest * pr.costs(wanted, s.Job.Work, 0)
	upkeep := s.Job.Upkeep
	if !pr.whole && s.Job.ReliableRate == 0 { // another machine replaces the reliable tier
		upkeep = max(s.Job.Reliable, pr.Pools[pr.demand].Type.OnDemand)
	}
	pr.rest = pr.costs(s.Want, s.Job.Work-pr.safe(), upkeep)
	afforded := s.Job.Budget <= 0 || float64(s.Job.Spent)+pr.rest <= float64(s.Job.Budget)
	return pr, afforded && pr.costs(wanted, s.Job.Work, s.Job.Upkeep) < pr.most
}

// safe returns the work that is not lost with the machines: all of it with a reliable tier, or if an on-demand fleet
// saves it before it leaves.
func (pr *promise) safe() float64 {
	held, _, only := pr.onDemand()
	if pr.Job.ReliableRate > 0 || pr.whole && only && held >= pr.Want.total() {
		return pr.Job.Done
	}
	return pr.Job.Saved
}

// rate returns the fleet's hourly work on demand.
func (pr *promise) rate(want Want) float64 {
	t := pr.Pools[pr.demand].Type
	return float64(want.machines(want.total(), t)) * t.WorkRate()
}

// costs returns the cost of some work on demand from nothing held, in billionths.
func (pr *promise) costs(want Want, work float64, upkeep market.USD) float64 {
	c, t := &pr.Pools[pr.demand], &pr.Job.Terms
	n := float64(want.machines(want.total(), c.Type))
	hours := (pr.Job.Startup + pr.Job.SaveTime).Hours() + work/pr.rate(want)
	paid := max(hours, t.Minimum.Hours())
	if t.Increment > 0 {
		paid = math.Ceil(hours/t.Increment.Hours()) * t.Increment.Hours()
	}
	fees := t.Fees.PerHour() + t.Fees.TrafficPerHour(c.Pool.Zone)
	return float64(n*float64(c.Type.OnDemand+fees)*paid) + float64(float64(upkeep)*paid)
}

// onDemand returns what is held on demand, whether all of that works, and whether nothing else is held.
func (pr *promise) onDemand() (held units, ready, only bool) {
	ready, only = true, true
	for i := range pr.Held {
		h := &pr.Held[i]
		c := pr.candidate(h.Pool)
		switch {
		case c == nil || h.Draining || h.Warned:
		case !c.OnDemand():
			only = false
		default:
			held += units(h.Count) * pr.Want.each(c.Type)
			ready = ready && h.Ready == h.Count
		}
	}
	return held, ready, only
}

// settled returns until when no plan leaves a whole working fleet on demand, unless a machine comes or goes: the amount
// due already exceeds the promise, so that it is short whatever is done of the rest, and no machine is released at
// the job's end. It subtracts an hour of the fleet, as bills may still change. Zero = the fleet may be left.
func (pr *promise) settled(p Policy) (until time.Time) {
	rate := pr.Job.ReliableRate
	for i := range pr.Held {
		h := &pr.Held[i]
		c := pr.candidate(h.Pool)
		if c == nil || !c.OnDemand() || h.Draining || h.Warned {
			return until
		}
		rate += float64(float64(h.Count) * c.Type.WorkRate())
	}
	due := float64(pr.Due(pr.Now.Add(pr.leave))) - float64(float64(pr.Job.Upkeep)*pr.Job.Terms.Increment.Hours())
	if pr.Job.Budget > 0 || due-pr.costs(pr.Want, pr.rate(pr.Want), pr.Job.Upkeep) <= pr.most {
		return until
	}
	if !endsEarly(p, pr.State) {
		return pr.Now.Add(endless)
	}
	left := pr.Job.Work - pr.Job.Done
	if e := (ending{State: pr.State}); e.far(left / 2) {
		until = pr.Now.Add(time.Duration(min(left/4/rate, endless.Hours()) * float64(time.Hour)))
	}
	return until
}

// spent returns the amount due by the time that the held machines can be left.
func (pr *promise) spent() float64 {
	left := pr.Now.Add(pr.leave)
	sum := float64(pr.Due(left))
	if inc := pr.Job.Terms.Increment; inc > 0 { // the rest counts the reliable tier from then on, which is paid further ahead
		sum -= float64(float64(pr.Job.Upkeep) * (inc - left.Sub(pr.Job.Started)%inc).Hours())
	}
	return sum
}

// withPurchases returns the amount spent, including the least that the plan's purchases will cost.
func (pr *promise) withPurchases(spent float64, plan *Plan) float64 {
	for i := range plan.Acquire {
		if a := &plan.Acquire[i]; a.Pool.Class == market.Spot {
			price := pr.price(pr.candidate(a.Pool), a.Bid)
			if pr.Job.Terms.PayBid {
				price = a.Bid
			}
			spent += float64(float64(a.Count) * float64(price) * max(pr.Job.Terms.Increment, pr.Job.Terms.Minimum, pr.leave).Hours())
		}
	}
	return spent
}

// finishes reports whether the held machines do the rest within the hour, if an interrupted hour is free: then going on
// demand would cost more than it saves. A deadline may require on demand anyway.
func (pr *promise) finishes() bool {
	if !pr.Job.Terms.FreeIncrement || !pr.Job.Deadline.IsZero() {
		return false
	}
	left := min(pr.left(false), pr.left(true)+(pr.Job.Startup+joining).Hours())
	if !(left < pr.Job.Terms.Increment.Hours()) {
		return false
	}
	end := pr.Now.Add(time.Duration(left*float64(time.Hour)) + pr.Job.SaveTime + pr.Job.Lag)
	before := pr.Now.Add(-pr.Job.Terms.Increment) // due for completed hours
	return float64(pr.Due(end)) <= pr.most && float64(pr.Due(before))+pr.rest <= pr.most
}

// left returns how many hours the rest takes on the working machines, or including those that are starting, once they
// work.
func (pr *promise) left(starting bool) float64 {
	var counts []int
	var rates []float64 // per machine
	sum := 0.0
	for i := range pr.Held {
		h := &pr.Held[i]
		c := pr.candidate(h.Pool)
		if c == nil || h.Warned || h.Draining || h.Ready < h.Count && !starting || c.Type.WorkRate() <= 0 {
			continue
		}
		counts, rates = append(counts, h.Count), append(rates, c.Type.WorkRate())
		sum += float64(float64(h.Count) * c.Type.WorkRate())
	}
	if pr.Job.Splits > 0 && !pr.whole && sum > 0 {
		sum = shared(float64(pr.Job.Splits), sum, counts, rates)
	}
	return (pr.Job.Work - pr.Job.Done) / sum
}

// shared returns the rate of machines that share equal, undivided pieces: those with one wait for others with two, and
// with more machines than pieces some have none. Sum is their rate if none waits.
func shared(pieces, sum float64, counts []int, rates []float64) float64 {
	const rounded = 1e-9 // of a piece
	for time := pieces / sum; ; {
		done, next := 0.0, math.Inf(1)
		for i, r := range rates {
			each := math.Floor(float64(time*r) + rounded)
			done += float64(float64(counts[i]) * each)
			next = min(next, (each+1)/r)
		}
		if done >= pieces {
			return pieces / time
		}
		time = next
	}
}

// paidUntil returns how long the plan's machines can be paid for from a sum, whatever prices do: with billed increments, to
// the next increment of any machine. Fees accrue by the second, and are counted then.
func (pr *promise) paidUntil(room float64, plan *Plan) time.Time {
	if inc := pr.Job.Terms.Increment; inc > 0 {
		left := pr.Now.Add(pr.leave)
		next := left.Add(max(inc-pr.leave, time.Minute)).Add(time.Second) // for the plan's purchases
		if begins := pr.Begins(left); !begins.IsZero() && begins.Before(next) {
			next = begins
		}
		return pr.Now.Add((next.Sub(left) + time.Second - 1).Truncate(time.Second))
	}
	perHour := float64(pr.Job.Upkeep)
	add := func(pool market.Pool, bid market.USD, count int) {
		if c := pr.candidate(pool); c != nil {
			perHour += float64(float64(count) * float64(max(bid, c.defaultBid())))
		}
	}
	for i := range plan.Acquire {
		add(plan.Acquire[i].Pool, plan.Acquire[i].Bid, plan.Acquire[i].Count)
	}
	for i := range pr.Held {
		add(pr.Held[i].Pool, pr.Held[i].Bid, pr.Held[i].Count)
	}
	return pr.Now.Add(time.Duration(min(room/perHour, endless.Hours())*float64(time.Hour)) + time.Second)
}

// missing returns how many machines on demand are missing.
func (pr *promise) missing(onDemand units) int {
	return pr.Want.machines(pr.Want.total()-onDemand, pr.Pools[pr.demand].Type)
}

// hasRoom reports whether the hourly limit has room for them in addition to everything held.
func (pr *promise) hasRoom(onDemand units) bool {
	return Room(*pr.State, market.USD(pr.missing(onDemand))*pr.Pools[pr.demand].Type.OnDemand)
}

// goOnDemand returns the plan that buys the missing machines on demand. If a partial fleet is useful, transient
// machines work until those on demand do, if the hourly limit allows both.
func (pr *promise) goOnDemand() Plan {
	const why = "on demand to the end: anything else might cost more than 1.5 times what the work does on demand"
	onDemand, ready, only := pr.onDemand()
	lacks := onDemand < pr.Want.total()
	buys := lacks && (only || pr.hasRoom(onDemand))
	var g *gang
	if pr.whole || buys || !pr.StepsOnly {
		g = newGang(*pr.State, BidOnDemand)
	} else {
		g = &gang{State: *pr.State, fleet: fleetOf(*pr.State)} // nothing is bought: what is considered need not be known
	}
	switch {
	case pr.whole:
		to := pr.demand
		if h, held := g.whole(); held && pr.Pools[h.candidate].OnDemand() {
			to = h.candidate
		}
		g.move(to, why)
	case buys:
		c := &g.plan.Considered[pr.demand]
		c.Chosen, c.Why = true, why
		g.plan.Acquire = []Acquire{{Pool: c.Pool, Count: pr.missing(onDemand), Why: why}}
	case lacks || ready:
		for _, h := range g.fleet.holdings {
			if c := &pr.Pools[h.candidate]; !c.OnDemand() {
				g.plan.Release = append(g.plan.Release, Release{Pool: c.Pool, Why: why})
			}
		}
	}
	if !only || !ready {
		g.plan.AskAgain = pr.Now.Add(time.Minute)
	}
	g.plan.Why = why
	g.explain()
	return g.plan
}
