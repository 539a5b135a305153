package bidding

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/market"
)

// TierML is the policy of the paper TierML (CMU-PDL-16-102): it bids the on-demand price, so that a machine is kept as
// long as it is worth it; buys in the pool with the highest MTTF at that bid; and moves to another pool, before any
// eviction, when that pool's MTTF has been clearly higher for a while. While no spot pool is within its bid it buys on
// demand, if the job allows it. A bid cannot be changed once granted, so the only moves are buying and releasing.
type TierML struct {
	// NeverSwitch disables the proactive switch: the policy tierml-noswitch.
	NeverSwitch bool
	// Bids is the bid rule.
	Bids  BidRule
	terms market.Terms
	told  bool // there are no bids, and providers report how often they evict: see measure
}

const (
	// SwitchRatio is the factor by which another pool's MTTF must exceed the present one's.
	SwitchRatio = 1.5
	// SwitchAfter is how long (market time) it must do so without interruption: one price spike must not move a fleet.
	SwitchAfter = 5 * time.Minute
	// nearTie is the share by which an MTTF may be lower than the highest and still count as equal, so that the price
	// decides: estimates from two weeks of prices are no more exact.
	nearTie = 0.1
	// priceFactor is the highest multiple of the cheapest work's price to pay for a higher MTTF (decision 14).
	priceFactor = 1.1
)

// Name returns "tierml", "tierml-noswitch", "tierml-aggressive".
func (p TierML) Name() string {
	name := "tierml"
	if p.NeverSwitch {
		name += "-noswitch"
	}
	if p.Bids != BidOnDemand {
		name += "-" + string(p.Bids)
	}
	return name
}

// measure returns a pool's MTTF at a bid. Without bids, machines are also evicted at the rate that the provider
// reports. Our own evictions are left out: a bulk eviction is one event, and after it another pool would look better
// for no other reason.
func (p TierML) measure(c *Candidate, at time.Time, bid market.USD) market.Estimate {
	e := market.MTTF(c.History, at, bid)
	if !p.told || !e.Known || e.Expected() <= 0 || c.OnDemand() {
		return e
	}
	rate := EvictionPrior(c, p.terms).PerHour() + 1/e.Expected().Hours()
	return market.Estimate{Known: true, Mean: time.Duration(float64(time.Hour) / rate), Episodes: e.Episodes}
}

// hasRates reports whether evictions for capacity count and a provider reports any.
func hasRates(s *State) bool {
	return s.Job.Terms.MaxBid == 0 && slices.ContainsFunc(s.Pools, func(c Candidate) bool {
		_, told := c.Hints.evictionRate()
		return told
	})
}

// Plan buys what is missing in the best pool; if nothing is missing, it looks for a switch.
//
// Invariants: a plan is a function of the State alone, and has at most one purchase or one switch. A switch releases
// the old machines only when the new ones are ready.
//
//  1. settled answers the usual question, a price change with a whole fleet in one spot pool, without ranking.
//  2. look asks of each pool whether it can be bought from (whyNot), leaves those out whose work is too dear (price), and ranks
//     the others by MTTF; near ties by price (rank).
//  3. acquireMissing buys what is missing from the first, on demand if there is no spot pool. If that pool lacks
//     capacity, the next call sees NoCapacityUntil and takes the one after it.
//  4. switchPool leaves on-demand machines once spot is back, or else the held pool with the lowest MTTF, for one that was
//     clearly better throughout SwitchAfter. It reads that off the price history (clearlyBetter).
//  5. stay explains why there is nothing to do.
//
// Rejected: remembering MTTFs between calls. The estimator answers in logarithmic time, and without memory, plan, dry
// run and run get the same answers.
func (p TierML) Plan(s State) Plan {
	p.told, p.terms = hasRates(&s), s.Job.Terms
	fleet := fleetOf(s)
	if s.StepsOnly && p.NeverSwitch && fleet.total() >= s.Want.total() && !fleet.anyOnDemand(s) {
		return Plan{} // nothing is missing, and nothing should be left
	}
	r := round{TierML: p, State: s, fleet: fleet}
	r.look()
	if r.acquireMissing() || r.switchPool() {
		return r.plan
	}
	r.stay()
	return r.plan
}

// clearlyLonger reports whether an MTTF is SwitchRatio times another.
func (p TierML) clearlyLonger(a, b market.Estimate) bool {
	return a.Known && b.Known && a.Expected() > b.Expected() && float64(a.Expected()) >= SwitchRatio*float64(b.Expected())
}

// round is one call of Plan.
type round struct {
	TierML
	State
	plan    Plan
	fleet   fleet
	ranking []int // spot pools that can be bought from now, best first
	leaders int   // number of leading pools in ranking with about the highest MTTF
	stable  []int // and on-demand pools, cheapest first
	dear    int   // number of spot pools within their bid that are not in ranking, as their work costs too much
}

// look examines all pools.
func (r *round) look() {
	r.plan.Considered = make([]Considered, len(r.Pools))
	for i := range r.Pools {
		c := &r.plan.Considered[i]
		*c = look(&r.Pools[i], r.State, r.Bids)
		if c.HasPrice && c.Bid > 0 {
			c.MTTF = r.measure(&r.Pools[i], r.Now, c.Bid)
		}
		c.Why = whyNot(&r.Pools[i], c, r.State)
		switch {
		case c.Why != "":
		case r.Pools[i].OnDemand():
			r.stable = append(r.stable, i)
		default:
			r.ranking = append(r.ranking, i)
		}
		_, held := r.fleet.in(i)
		c.Chosen = held
	}
	r.price()
	r.rank()
}

// perWork returns the present cost of a unit of work in a pool; false if the machines' rate is unknown.
func (r *round) perWork(i int) (float64, bool) {
	rate := r.Pools[i].Type.WorkRate()
	return float64(r.plan.Considered[i].Price) / rate, rate > 0
}

// price removes spot pools from the ranking whose work costs more than on demand, on the cheapest type there, or more
// than priceFactor times the cheapest work. A switch must save as well as avoid an eviction (TierML, CMU-PDL-16-102,
// section 4.6), and by MTTF alone the paper's two types, at one price per core, are no guide. Without it, one more
// pool, expensive and calm, took the fleet.
func (r *round) price() {
	onDemand, _ := r.leastOnDemand()
	cheapest := math.Inf(1)
	for _, i := range r.ranking {
		if cost, known := r.perWork(i); known && r.plan.Considered[i].MTTF.Known { // a newly opened market is no yardstick
			cheapest = min(cheapest, cost)
		}
	}
	r.ranking = slices.DeleteFunc(r.ranking, func(i int) bool {
		cost, known := r.perWork(i)
		seen := &r.plan.Considered[i]
		switch {
		case !known:
		case r.StepsOnly && cost > min(onDemand, priceFactor*cheapest):
			seen.Why = "work costs too much"
		case cost > onDemand:
			seen.Why = fmt.Sprintf("work costs %.2f times what it does on demand", cost/onDemand)
		case cost > priceFactor*cheapest:
			seen.Why = fmt.Sprintf("work costs %.2f times the cheapest; up to %.4g times is paid for a higher MTTF", cost/cheapest, priceFactor)
		}
		if seen.Why != "" {
			r.dear++
		}
		return seen.Why != ""
	})
}

// look returns a candidate's figures, which every policy shows.
func look(c *Candidate, s State, bids BidRule) Considered {
	seen := Considered{Pool: c.Pool, OnDemand: c.Type.OnDemand, Count: s.Want.machines(s.Want.total(), c.Type)}
	seen.Price, seen.HasPrice = c.History.At(s.Now)
	seen.Bid = bids.Bid(c, seen.Price)
	return seen
}

// whyNot returns why machines cannot be bought from a pool now; "" if they can.
func whyNot(c *Candidate, seen *Considered, s State) string {
	switch {
	case seen.OnDemand <= 0:
		return "on-demand price unknown: no " + limitWord(c.Pool) + " can be set"
	case !seen.HasPrice:
		return "spot price unknown"
	case c.OnDemand() && c.MaxPrice > 0 && seen.Price > c.MaxPrice:
		return fmt.Sprintf("on-demand price $%s is above the job's limit $%s", seen.Price, c.MaxPrice)
	case seen.Price > seen.Bid && !c.OnDemand() && s.StepsOnly:
		return "spot price above the " + limitWord(c.Pool)
	case seen.Price > seen.Bid && !c.OnDemand():
		return fmt.Sprintf("spot price $%s is above the %s $%s", seen.Price, limitWord(c.Pool), seen.Bid)
	case seen.Count == 0 && s.Want.total() > 0:
		return fmt.Sprintf("vCPUs of %s unknown: cannot tell how many to buy", c.Type.Name)
	case c.NoCapacityUntil.After(s.Now):
		return fmt.Sprintf("no capacity; to be tried again at %s", c.NoCapacityUntil.UTC().Format(time.RFC3339))
	}
	return ""
}

// rank sorts the pools to buy from by MTTF, highest first, unknown last. Those just below the leader of their
// group count as equal to it and are sorted by price per work (per vCPU, unless rates are declared), then by pool.
func (r *round) rank() {
	mean := func(i int) time.Duration {
		if e := r.plan.Considered[i].MTTF; e.Known {
			return e.Expected()
		}
		return -1
	}
	byPool := func(i, j int) int { return r.Pools[i].Pool.Compare(r.Pools[j].Pool) }
	slices.SortFunc(r.stable, func(i, j int) int { return cmp.Or(r.comparePerWork(i, j), byPool(i, j)) })
	slices.SortFunc(r.ranking, func(i, j int) int { return cmp.Or(cmp.Compare(mean(j), mean(i)), byPool(i, j)) })
	for rest := r.ranking; len(rest) > 0; {
		lowest := time.Duration(float64(mean(rest[0])) * (1 - nearTie))
		if mean(rest[0]) < 0 {
			lowest = -1
		}
		n := 1
		for n < len(rest) && mean(rest[n]) >= lowest {
			n++
		}
		slices.SortFunc(rest[:n], func(i, j int) int { return cmp.Or(r.comparePerWork(i, j), byPool(i, j)) })
		if r.leaders == 0 {
			r.leaders = n
		}
		rest = rest[n:]
	}
}

// comparePerWork compares spot prices per work. Types whose rate is unknown come last.
func (r *round) comparePerWork(i, j int) int {
	a, b := r.Pools[i].Type.WorkRate(), r.Pools[j].Type.WorkRate()
	if a <= 0 || b <= 0 {
		return cmp.Compare(b, a)
	}
	return cmp.Compare(float64(float64(r.plan.Considered[i].Price)*b), float64(float64(r.plan.Considered[j].Price)*a))
}

// acquireMissing buys what is missing from the best pool. It uses one pool at a time: if that has too little,
// the next plan sees it in NoCapacityUntil and continues with the next pool.
func (r *round) acquireMissing() bool {
	missing := r.Want.total() - r.fleet.total()
	if missing <= 0 || len(r.ranking)+len(r.stable) == 0 {
		return false
	}
	best, why, equals := 0, "", r.ranking[:r.leaders]
	if len(r.ranking) > 0 {
		best, why = r.ranking[0], r.whyBest()
	} else {
		best, why, equals = r.stable[0], "on demand, as no spot pool can be bought from: "+r.refusals(), r.stable
	}
	r.buy(best, missing, why)
	a := &r.plan.Acquire[0]
	a.Or = r.alternatives(r.plan.Considered, best, equals, func(i int) float64 { return float64(r.plan.Considered[i].Price) })
	r.plan.Why = fmt.Sprintf("%d %s of %s%s: %s", a.Count, plural("machine", a.Count), r.Pools[best].Pool, orOthers(len(a.Or)), why)
	r.explain()
	return true
}

// buy adds an acquisition to the plan.
func (r *round) buy(candidate int, n units, why string) {
	c := &r.Pools[candidate]
	seen := &r.plan.Considered[candidate]
	seen.Chosen, seen.Why = true, why
	r.plan.Acquire = append(r.plan.Acquire, Acquire{
		Pool: c.Pool, Bid: seen.Bid, Count: r.Want.machines(n, c.Type), Why: why,
	})
}

// stay explains a plan without steps.
func (r *round) stay() {
	switch {
	case r.StepsOnly:
		return
	case r.Want.total() <= 0 && len(r.fleet.holdings) == 0:
		r.plan.Why = "the job wants no spot machines"
	case len(r.fleet.holdings) == 0:
		r.plan.Why = "no spot pool can be bought from: " + r.refusals() + "; the job continues on its reliable machines"
	case r.fleet.total() < r.Want.total():
		r.plan.Why = "machines are missing and no spot pool can be bought from: " + r.refusals()
	case r.plan.Why == "":
		r.plan.Why = "all wanted machines are held and no other pool is clearly better"
	}
	r.explain()
}

func (r *round) refusals() string {
	if len(r.Pools) == 0 {
		return "the job allows none"
	}
	full := r.State
	full.StepsOnly = false // these appear in the journal
	var reasons []string
	for i, c := range r.plan.Considered {
		if c.Why != "" {
			c.Why = cmp.Or(whyNot(&r.Pools[i], &c, full), c.Why)
		}
		if c.Pool.Class == market.Spot || c.Why != "" {
			reasons = append(reasons, c.Pool.Zone+" "+c.Pool.Type+": "+c.Why)
		}
	}
	return strings.Join(reasons, "; ")
}

// explain gives a reason to the candidates that have none yet.
func (r *round) explain() {
	for i := range r.plan.Considered {
		c := &r.plan.Considered[i]
		switch {
		case c.Why != "":
		case c.Pool.Class == market.OnDemand && c.Chosen:
			c.Why = "held on demand, until a spot pool can be bought from"
		case c.Pool.Class == market.OnDemand:
			c.Why = "on demand: only while no spot pool can be bought from"
		case c.Chosen && !c.Pool.TakesBids():
			c.Why = "held"
		case !c.Pool.TakesBids():
			c.Why = r.whyBehindWithoutBids(i)
		case c.Chosen:
			c.Why = "held; MTTF " + mttfText(c.MTTF)
		default:
			c.Why = "MTTF " + mttfText(c.MTTF) + r.whyBehind(i)
		}
	}
}

// whyBehindWithoutBids is whyBehind if a price above the limit causes no eviction.
func (r *round) whyBehindWithoutBids(i int) string {
	best := r.ranking[0]
	switch {
	case best == i:
		return "the best, but not bought"
	case r.comparePerWork(best, i) < 0:
		return r.name(best) + " is cheaper per vCPU"
	default:
		return "no better than " + r.name(best)
	}
}

// limitWord names the highest price that a policy pays: a bid if the provider accepts bids, otherwise a limit of our
// own.
func limitWord(p market.Pool) string {
	if p.TakesBids() {
		return "bid"
	}
	return "limit"
}

// whyBehind returns why a pool ranks below the best.
func (r *round) whyBehind(i int) string {
	best := r.ranking[0]
	a, b := r.plan.Considered[best].MTTF, r.plan.Considered[i].MTTF
	switch {
	case best == i:
		return ""
	case !b.Known && a.Known || a.Known && float64(b.Expected()) < float64(a.Expected())*(1-nearTie):
		return " is lower than that of " + r.name(best)
	case r.comparePerWork(best, i) < 0:
		return " is close to that of " + r.name(best) + ", which is cheaper per vCPU"
	default:
		return " equals that of " + r.name(best) + " at the same price"
	}
}

// whyBest returns what the first of the ranking has over the others.
func (r *round) whyBest() string {
	best := r.ranking[0]
	c := &r.plan.Considered[best]
	if !c.Pool.TakesBids() {
		return "spot price $" + c.Price.String() + " is within the limit $" + c.Bid.String() + "; without bids, prices say nothing about preemptions"
	}
	if !c.MTTF.Known {
		return "spot price $" + c.Price.String() + " is within the bid $" + c.Bid.String() + "; MTTF unknown, as of all others"
	}
	what := "highest MTTF "
	switch {
	case len(r.ranking) == 1 && r.dear > 0:
		what = "only pool with work at about the lowest price, MTTF "
	case len(r.ranking) == 1:
		what = "only pool within its bid, MTTF "
	case r.plan.Considered[r.ranking[1]].MTTF.Expected() > c.MTTF.Expected():
		what = "cheapest per vCPU of those with about the highest MTTF, "
	}
	return what + mttfText(c.MTTF) + " at bid $" + c.Bid.String()
}

// name returns a pool's name in a sentence, distinct among a provider's pools.
func (r *round) name(candidate int) string {
	p := r.Pools[candidate].Pool
	return p.Zone + " " + p.Type
}
