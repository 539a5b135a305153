package bidding

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// SkyNomad is the policy of SkyNomad (arXiv 2601.06520) for a job with a deadline and pools in several regions: one
// fleet, spot or on demand, goes where an hour of it is expected to be worth most, or waits. Formulas and section
// numbers follow the authors' simulator and another public implementation: of the paper itself only the abstract and
// the introduction were available.
//
//   - What it may observe (4.3): each pool is probed every hour of the job, and whenever it decides. From the first probe that succeeds
//     to the first that fails, a virtual machine lives there. It sees prices until now, its own machines, and nothing from before the job.
//   - How long machines last (4.4): by Nelson and Aalen's estimate of the hazard at each age, times how much more often they have died
//     lately than it says (lives).
//   - What an hour of progress is worth (4.5): V = Cod θ/θ~, the price on demand times the pace that the deadline requires now, in parts of
//     the pace that it required at the start. Ahead of it, even spot may be too dear; behind it, on demand is worth its price.
//   - What a fleet is worth an hour (4.6): U = V η - C - E/L. L is how long it is expected to last, η the part of that in which it works, C
//     its price, E what the state costs that it fetches. To wait is worth 0.
//   - When to move (4.7): to the best, if it is worth Δ more than what is held. The safety net goes first: on demand to the end when
//     the time left is less than the work left and two changeovers.
//
// Our choices: U is per work, as types differ; Δ is 5 % of Cod; a machine that was not seen to die is expected to
// within an hour, and then within as long as was seen; with whole-hour billing, it leaves at an hour's end; and course
// keeps the promise of the deadline.
type SkyNomad struct{}

const (
	// probeEvery is the authors' simulator's value.
	probeEvery = time.Hour
	// skyTick is the longest time between decisions, as in the authors' simulator.
	skyTick = 10 * time.Minute
	// skyDelta is Δ, relative to the on-demand price.
	skyDelta = 0.05
)

// Name returns "skynomad".
func (SkyNomad) Name() string { return "skynomad" }

// ByRestart marks a policy without a reliable tier.
func (SkyNomad) ByRestart() {}

// Plan implements algorithm 1 (4.7).
func (SkyNomad) Plan(s State) Plan {
	c := skyCourse{newCourse(s)}
	switch {
	case c.done:
		return c.stay("the work is done", 0)
	case c.demand < 0 || !c.affordable(1):
		return c.withoutDemand()
	case !c.daring() && c.onSpot():
		return c.holdSpot()
	case c.onDemand() && (c.starting > 0 || !c.daring()):
		return c.stay("safety net: on demand to the end", c.starting)
	case !c.daring():
		return c.goTo(c.demand, "safety net: two changeovers more, and the deadline would be missed")
	case c.whole && c.paid() > c.ending()+c.margin():
		return c.stay("to the end of the time that is paid for", min(c.paid()-c.ending()-c.margin(), skyTick))
	}
	best, worth := c.best()
	switch here := c.worthHere(); {
	case c.whole && max(worth, 0) <= here+skyDelta:
		return c.stay("no other pool is worth clearly more", c.untilDecision())
	case worth <= 0:
		return c.pause("an hour of progress is not worth its price now", c.untilDecision())
	case c.whole && best == c.held.candidate:
		return c.stay("the best pool is held", c.untilDecision())
	}
	return c.goTo(best, "an hour there is worth most")
}

// skyCourse is a course with SkyNomad's figures; its money is relative to the cost of the work on demand.
type skyCourse struct{ *course }

// withoutDemand is for jobs that cannot buy on demand: nothing then guarantees a deadline.
func (c skyCourse) withoutDemand() Plan {
	const why = "no on-demand machines may be bought"
	switch {
	case c.onSpot():
		return c.holdSpot()
	case c.spot >= 0:
		return c.goTo(c.spot, why+": spot, even if the deadline is missed")
	}
	return c.pause(why+": waiting for spot", 0)
}

// untilDecision returns when to decide again: before the safety net is needed.
func (c skyCourse) untilDecision() time.Duration {
	return max(time.Second, min(skyTick, c.slack()-2*c.change-c.atRisk))
}

// value returns V (4.5): Cod θ/θ~, with θ = (P-p)/(T-t) and θ~ = P/T.
func (c skyCourse) value() float64 {
	all, left := c.Job.Deadline.Sub(c.Job.Started), c.left
	if c.Job.Deadline.IsZero() || left <= 0 || all <= 0 {
		return 1
	}
	return float64(c.work) / float64(left) * float64(all) / float64(c.all)
}

// best returns the candidate in which an hour is worth most; ties go to the held one.
func (c skyCourse) best() (best int, worth float64) {
	type option struct {
		candidate int
		worth     float64
	}
	var options []option
	for _, i := range c.open {
		if c.Pools[i].OnDemand() || c.spot >= 0 && !c.twice(i) {
			options = append(options, option{i, c.worth(i, c.whole && i == c.held.candidate)})
		}
	}
	if len(options) == 0 {
		return -1, 0
	}
	o := slices.MinFunc(options, func(a, b option) int {
		return cmp.Or(cmp.Compare(b.worth, a.worth), cmp.Compare(c.heldIn(b.candidate), c.heldIn(a.candidate)), cmp.Compare(a.candidate, b.candidate))
	})
	return o.candidate, o.worth
}

// worthHere returns the worth of what is held; 0 for nothing.
func (c skyCourse) worthHere() float64 {
	if !c.whole {
		return 0
	}
	return c.worth(c.held.candidate, true)
}

// worth returns U (4.6).
func (c skyCourse) worth(candidate int, held bool) float64 {
	lasts := c.lasts(candidate).Hours()
	if lasts <= 0 {
		return math.Inf(-1)
	}
	price := c.perWork(candidate) / c.perWork(c.demand)
	if held {
		return c.value() - price
	}
	useful := max(0, 1-c.change.Hours()/lasts)
	return c.value()*useful - price - c.fetch(candidate)/lasts
}

// fetch returns E, in hours of the fleet on demand.
func (c skyCourse) fetch(candidate int) float64 {
	seen := &c.plan.Considered[c.demand]
	return float64(c.Job.moving(c.Pools[candidate].Pool)) / (float64(seen.Price) * float64(seen.Count))
}

// lasts returns L: how long a candidate's fleet is expected to last, at most until the deadline. On demand it lasts
// until then.
func (c skyCourse) lasts(candidate int) time.Duration {
	if c.Pools[candidate].OnDemand() {
		return c.left
	}
	seen, age := c.watch(candidate)
	left := seen.expected(age)
	if told := fleetLosses(&c.Pools[candidate], c.Job.Terms, c.plan.Considered[candidate].Count, c.Now); c.Pools[candidate].Availability == nil && told > 0 {
		left = min(left, 1/told) // if no probe shows evictions
	}
	return min(time.Duration(left*float64(time.Hour)), c.left)
}

// watch returns the lives of virtual machines in a pool (4.3), and the age of the present one.
func (c skyCourse) watch(candidate int) (seen lives, age float64) {
	var born time.Time
	for at := c.Job.Started; !at.After(c.Now); at = at.Add(probeEvery) {
		switch up := c.answers(candidate, at); {
		case up && born.IsZero():
			born = at
		case !up && !born.IsZero():
			seen = append(seen, life{at.Sub(born).Hours(), true})
			born = time.Time{}
		}
	}
	if born.IsZero() {
		return seen, 0
	}
	age = c.Now.Sub(born).Hours()
	return append(seen, life{age, false}), age
}

// answers reports whether a probe for a whole fleet would have succeeded.
func (c skyCourse) answers(candidate int, at time.Time) bool {
	p, seen := &c.Pools[candidate], &c.plan.Considered[candidate]
	if p.Availability != nil {
		free, known := p.Availability.At(at)
		return known && free >= seen.Count
	}
	price, known := p.History.At(at)
	return known && price <= seen.Bid
}

// life is how many hours a machine was seen to live, and whether it then died: otherwise it is censored.
type life struct {
	hours float64
	died  bool
}

// lives are in the order of their ends.
type lives []life

// hazard returns the cumulative hazard of Nelson and Aalen at an age (4.4): H(l) = Σ e(x)/n(x) over the ages x up to l
// at which machines died; n(x) had reached x.
func (l lives) hazard(age float64) (sum float64) {
	for _, dead := range l {
		if dead.died && dead.hours <= age {
			sum += 1 / float64(l.reached(dead.hours)) // each death in e(x)
		}
	}
	return sum
}

func (l lives) reached(age float64) (n int) {
	for _, other := range l {
		if other.hours >= age {
			n++
		}
	}
	return n
}

// volatility returns γ* (4.4): the ratio of deaths to the hazard's expectation, in the window ending now for which it
// is largest. One expected death is added to each window (ours): otherwise the death of a young machine would outweigh
// all others.
func (l lives) volatility() float64 {
	most, died, expected := 1.0, 1.0, 1.0
	for _, one := range slices.Backward(l) {
		expected += l.hazard(one.hours)
		if one.died {
			died++
		}
		most = max(most, died/expected)
	}
	return most
}

// expected returns the remaining hours of a machine of an age: 1/S(a) ∫ S, from a on, with S = exp(-γ* H) (4.4). Beyond
// the oldest age seen, the hazard is one death more than were seen, over an hour more than was watched (ours).
func (l lives) expected(age float64) float64 {
	deaths, watched := 1.0, probeEvery.Hours()
	var ages []float64
	for _, one := range l {
		watched += one.hours
		if one.died {
			deaths++
			if one.hours > age {
				ages = append(ages, one.hours)
			}
		}
	}
	slices.Sort(ages)
	volatility, before := l.volatility(), l.hazard(age)
	left, alive, from := 0.0, 1.0, age
	for _, at := range ages {
		left += alive * (at - from)
		alive, from = math.Exp(-volatility*(l.hazard(at)-before)), at
	}
	return left + alive*watched/(deaths*volatility)
}
