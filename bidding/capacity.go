package bidding

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// Capacity is for markets without bids, in which capacity, not the price, decides which machines stay: EC2 since
// December 2017, and Compute Engine. It estimates the cost of work in each pool from the price and the rate of
// evictions, by the provider's hints, observed availability and our own machines; spreads the fleet over pools that
// cost about the same, so that one bulk eviction takes only a part of it; and leaves a pool when another has become
// clearly cheaper. Zero values mean the defaults.
//
// Rejected: spreading over all pools within 1 % of the cheapest, which cost more than the cheapest zone alone, and
// eviction rates by the age of a pool's spell, as Deadline uses them: half as many evictions again at the same cost
// (test/papers/measured.md).
type Capacity struct {
	// BulkLoss is the part of the whole fleet's working time that is lost when all machines are evicted at once, in
	// addition to each machine's own loss: the price worth paying to spread the fleet. 0 = 30 s.
	BulkLoss time.Duration
	// Spread is the most pools that the fleet is spread over. 0 = 4.
	Spread int
}

const (
	defaultBulkLoss = 30 * time.Second
	defaultSpread   = 4
	// clearly is the share by which work must be cheaper elsewhere to justify a move: estimates are no more exact.
	clearly = 0.01
	// priorWeight is the weight of the provider's rate, or of the assumed one, in observed evictions.
	priorWeight = 1.0
	// assumedHours is the most hours of observation that an assumed rate counts for once machines were evicted:
	// recordings of different zones differ by a factor of ten.
	assumedHours = 24.0
	// moveHorizon is how long a price difference is assumed to last: a day, as prices now change slowly, a few
	// times a day.
	moveHorizon = 24 * time.Hour
)

// Name returns "capacity".
func (Capacity) Name() string { return "capacity" }

// Plan buys what is missing in the pools with the cheapest work, up to each pool's share, and otherwise looks for a
// pool that is worth a move.
func (p Capacity) Plan(s State) Plan {
	p.BulkLoss, p.Spread = cmp.Or(p.BulkLoss, defaultBulkLoss), cmp.Or(p.Spread, defaultSpread)
	if s.Job.Together { // one eviction stops all machines, wherever the others are
		p.Spread = 1
	}
	r := &spreading{Capacity: p, State: s, fleet: fleetOf(s)}
	r.consider()
	if missing := s.Want.total() - r.fleet.total(); missing > 0 {
		r.fill(missing)
	} else {
		r.move()
	}
	r.explain()
	return r.plan
}

// evictionRate returns the expected evictions per machine hour of a pool: the mean of a Gamma distribution with the
// prior EvictionPrior, updated by our own machines and the pool's observed availability.
func evictionRate(c *Candidate, terms market.Terms, count int, now time.Time) float64 {
	prior := EvictionPrior(c, terms)
	ends, up := watched(c.Availability, count, now)
	ends += float64(c.Hints.Lifetimes.Evicted)
	up += c.Hints.Lifetimes.Watched.Hours()
	hours := priorWeight / prior.PerHour()
	if !prior.Told && ends > 0 {
		hours = min(hours, assumedHours)
	}
	return (float64(hours*prior.PerHour()) + ends) / (hours + up)
}

// fleetLosses returns how often per hour, without bids, a fleet in a pool is expected to lose at least one machine.
// Machines are assumed to be lost one at a time.
func fleetLosses(c *Candidate, terms market.Terms, machines int, now time.Time) float64 {
	ends, up := watched(c.Availability, machines, now)
	if ends > 0 && up > 0 {
		return ends / up // for whole fleets
	}
	return evictionRate(c, terms, machines, now) * float64(machines)
}

// watched returns how often the pool could no longer keep count machines, and for how many hours it could.
func watched(a *market.Availability, count int, now time.Time) (ends, hours float64) {
	first, known := a.First()
	if !known || count <= 0 {
		return 0, 0
	}
	points := append([]market.AvailabilityPoint{first}, a.Points(first.At, now)...)
	for i, p := range points {
		if p.Count < count {
			if i > 0 && points[i-1].Count >= count {
				ends++
			}
			continue
		}
		end := now
		if i+1 < len(points) {
			end = points[i+1].At
		}
		hours += max(end.Sub(p.At), 0).Hours()
	}
	return ends, hours
}

// spreading is one call of Plan.
type spreading struct {
	Capacity
	State
	plan    Plan
	fleet   fleet
	rates   []float64 // Index: candidate; evictions per machine hour
	perWork []float64 // Index: candidate; expected cost per vCPU hour in billionths, infinite if unknown
	ranking []int     // spot pools that can be bought from, cheapest work first
}

func (r *spreading) consider() {
	r.plan.Considered = make([]Considered, len(r.Pools))
	r.perWork, r.rates = make([]float64, len(r.Pools)), make([]float64, len(r.Pools))
	for i := range r.Pools {
		c := &r.plan.Considered[i]
		*c = look(&r.Pools[i], r.State, BidOnDemand)
		c.Why = whyNot(&r.Pools[i], c, r.State)
		_, c.Chosen = r.fleet.in(i)
		if !r.Pools[i].OnDemand() {
			r.rates[i] = evictionRate(&r.Pools[i], r.Job.Terms, 1, r.Now)
			c.ByHints = true
			c.MTTF = market.Estimate{Known: true, Mean: time.Duration(float64(time.Hour) / r.rates[i])}
		}
		r.perWork[i] = r.expected(i)
		if c.Why == "" && (r.Job.alone || !r.Pools[i].OnDemand()) && r.room(i) > 0 {
			r.ranking = append(r.ranking, i)
		}
	}
	slices.SortStableFunc(r.ranking, func(i, j int) int {
		return cmp.Or(cmp.Compare(r.perWork[i], r.perWork[j]), byPlacement(&r.Pools[i], &r.Pools[j], r.Now), r.Pools[i].Pool.Compare(r.Pools[j].Pool))
	})
}

// expected returns the cost of a vCPU hour of work in a pool, with its share of upkeep, for exponential lifetimes with
// the pool's eviction rate h per hour. Of a lifetime, exp(-h s) is work, with s the start-up time; if machines
// reclaimed within their first hours F are free, exp(-h F) (1 + h F) of it is paid. Fees are always paid: traffic makes
// a zone other than the reliable machines' more expensive. Before each lifetime, launches are tried for a while,
// according to the provider: meanwhile the upkeep is paid. If machines keep their own work, its loss counts (Job.kept);
// if machines stop together, any eviction ends the lifetime, but only the reclaimed machine is free.
func (r *spreading) expected(i int) float64 {
	c, seen := &r.Pools[i], &r.plan.Considered[i]
	rate, n := c.Type.WorkRate(), r.Want.machines(r.Want.total(), c.Type)
	if !seen.HasPrice || rate <= 0 || n <= 0 {
		return math.Inf(1)
	}
	useful, paid, upkeep := 1.0, 1.0, float64(r.Job.hour())/float64(n)
	if !c.OnDemand() {
		h := r.rates[i]
		free := float64(h * r.Job.Terms.FreeWithin.Hours())
		paid = math.Exp(-free) * (1 + free)
		h *= r.Job.stopped(n)
		useful = math.Exp(-h*r.Job.Startup.Hours()) * r.Job.kept(h)
		upkeep *= 1 + float64(h*c.Hints.launchWait(r.Now).Hours())
	}
	fees := r.Job.Terms.Fees.PerHour() + r.Job.Terms.Fees.TrafficPerHour(c.Pool.Zone)
	return (float64(float64(seen.Price)*paid) + float64(fees) + upkeep) / (rate * useful)
}

// room returns how many more machines a pool is known to have.
func (r *spreading) room(i int) int {
	free, known := r.Pools[i].Availability.At(r.Now)
	if !known {
		return math.MaxInt32
	}
	if h, held := r.fleet.in(i); held {
		free -= h.machines
	}
	return free
}

// shares returns the pools that get a part of the fleet: the cheapest, and of those that cost little more, first the
// ones with new zones, then with new types, as a zone's or type's machines are reclaimed together.
//
// The limit on the extra cost: a machine loses as much by its own eviction whether others go with it or not, so that
// on average the spread saves only BulkLoss at each eviction of the cheapest pool. The pool's lifetimes tell how often
// that is.
func (r *spreading) shares() (chosen []int) {
	if len(r.ranking) == 0 {
		return nil
	}
	cheapest := r.ranking[0]
	limit := r.perWork[cheapest] * (1 + float64(r.rates[cheapest]*r.BulkLoss.Hours()))
	zones, kinds := map[string]int{}, map[string]int{}
	near := slices.Clone(r.ranking)
	near = slices.DeleteFunc(near, func(i int) bool { return r.perWork[i] > limit })
	for len(near) > 0 && len(chosen) < r.Spread {
		best := 0
		for k := range near {
			a, b := r.Pools[near[k]].Pool, r.Pools[near[best]].Pool
			if cmp.Or(cmp.Compare(zones[a.Zone], zones[b.Zone]), cmp.Compare(kinds[a.Type], kinds[b.Type])) < 0 {
				best = k
			}
		}
		p := r.Pools[near[best]].Pool
		zones[p.Zone]++
		kinds[p.Type]++
		chosen = append(chosen, near[best])
		near = slices.Delete(near, best, best+1)
	}
	return chosen
}

// fill buys what is missing: in each pool up to its share, then in the cheapest.
func (r *spreading) fill(missing units) {
	chosen := r.shares()
	if len(chosen) == 0 || r.Job.Together && r.scarce(missing) {
		r.fallBack(missing)
		return
	}
	if r.letChoose(missing) {
		return
	}
	total := r.Want.total()
	share := (total + units(len(chosen)) - 1) / units(len(chosen))
	for _, i := range chosen {
		held, _ := r.fleet.in(i)
		missing -= r.buy(i, min(missing, share-held.units), fmt.Sprintf("its share of %d pools; work costs $%s per vCPU hour, machines are taken every %s",
			len(chosen), dollarText(r.perWork[i]), durationText(r.plan.Considered[i].MTTF.Mean)))
	}
	for _, i := range r.ranking {
		if !slices.Contains(chosen, i) {
			missing -= r.buy(i, missing, "the cheaper pools have no more; work costs $"+dollarText(r.perWork[i])+" per vCPU hour")
		}
	}
}

// scarce reports whether all pools together have less than is missing.
func (r *spreading) scarce(missing units) bool {
	for _, i := range r.ranking {
		t := r.Pools[i].Type
		missing -= units(min(r.Want.machines(missing, t), r.room(i))) * r.Want.each(t)
	}
	return missing > 0
}

// letChoose lets the provider spread the purchase over the pools whose work costs about the least, if there are
// several. It reports whether it did.
func (r *spreading) letChoose(missing units) bool {
	best := r.ranking[0]
	or := r.alternatives(r.plan.Considered, best, r.ranking, func(i int) float64 { return r.perWork[i] })
	if len(or) == 0 {
		return false
	}
	c := &r.plan.Considered[best]
	why := fmt.Sprintf("work costs $%s per vCPU hour, machines are taken every %s", dollarText(r.perWork[best]), durationText(c.MTTF.Mean))
	c.Chosen, c.Why = true, why
	count := r.Want.machines(missing, r.Pools[best].Type)
	r.plan.Acquire = append(r.plan.Acquire, Acquire{Pool: c.Pool, Bid: c.Bid, Count: count, Why: why, Or: or})
	r.plan.Why = fmt.Sprintf("%d of %s%s: %s", count, c.Pool, orOthers(len(or)), why)
	return true
}

// cheaper returns the share by which work must be cheaper elsewhere for a move.
func (r *spreading) cheaper() float64 {
	if r.Chooses {
		return worseNow
	}
	return clearly
}

// buy adds an acquisition and returns its units.
func (r *spreading) buy(i int, n units, why string) units {
	t := r.Pools[i].Type
	count := min(r.Want.machines(n, t), r.room(i))
	if count <= 0 {
		return 0
	}
	c := &r.plan.Considered[i]
	c.Chosen, c.Why = true, why
	r.plan.Acquire = append(r.plan.Acquire, Acquire{Pool: c.Pool, Bid: c.Bid, Count: count, Why: why})
	r.plan.Why = fmt.Sprintf("%d of %s: %s", count, c.Pool, why)
	return units(count) * r.Want.each(t)
}

// fallBack buys on demand when there is no time to wait for spot capacity: because of the deadline, or without one
// because the wait is too long.
func (r *spreading) fallBack(missing units) {
	r.plan.Why = "no spot pool has capacity now; the job continues on its reliable machines"
	if r.Job.alone {
		r.plan.Why = "no pool has capacity now"
	}
	left, known := r.Job.WorkLeft()
	best, rate := -1, 0.0
	for i := range r.Pools {
		c := &r.Pools[i]
		if c.OnDemand() && r.plan.Considered[i].Why == "" && (best < 0 || r.perWork[i] < r.perWork[best]) {
			best, rate = i, float64(r.plan.Considered[i].Count)*c.Type.WorkRate()
		}
	}
	if !known || best < 0 || rate <= 0 {
		return
	}
	hours := func(work float64) time.Duration { return time.Duration(work / rate * float64(time.Hour)) }
	latest, why := r.Job.Deadline, "the deadline leaves no time to wait"
	if latest.IsZero() {
		latest, why = r.Job.Started.Add(2*hours(r.Job.Work)+patience), "it did not come in time"
	}
	if r.Now.Add(hours(left) + 2*r.Job.Startup).After(latest) {
		r.buy(best, missing, "on demand, as no spot pool has capacity and "+why)
	}
}

// move leaves the pool with the most expensive work, if the saving on the remaining work, for at most a day, pays
// for starting others.
func (r *spreading) move() {
	r.plan.Why = "all wanted machines are held, and no other pool's work is clearly cheaper"
	if len(r.ranking) == 0 || r.fleet.draining || r.fleet.spare(r.Want.total()) {
		return
	}
	from := -1
	for k, h := range r.fleet.holdings {
		if from < 0 || r.perWork[h.candidate] > r.perWork[r.fleet.holdings[from].candidate] {
			from = k
		}
	}
	to := r.ranking[0]
	if from < 0 || r.fleet.holdings[from].candidate == to {
		return
	}
	h := r.fleet.holdings[from]
	if r.perWork[h.candidate] <= r.perWork[to]*(1+r.cheaper()) || r.room(to) < r.Want.machines(h.units, r.Pools[to].Type) {
		return
	}
	work := moveHorizon.Hours() * float64(h.machines) * r.Pools[h.candidate].Type.WorkRate()
	if left, known := r.Job.WorkLeft(); known {
		work = min(work, left*float64(h.units)/float64(max(r.fleet.total(), 1)))
	}
	count := r.Want.machines(h.units, r.Pools[to].Type)
	stopped := max(float64(count), r.Job.stopped(r.Want.machines(r.Want.total(), r.Pools[to].Type)))
	start := float64(r.plan.Considered[to].Price) * stopped * (r.Job.Startup + r.Job.Undone/2).Hours()
	if (r.perWork[h.candidate]-r.perWork[to])*work <= start {
		return
	}
	p, q := r.Pools[h.candidate].Pool, r.Pools[to].Pool
	why := fmt.Sprintf("work costs $%s per vCPU hour there, $%s here", dollarText(r.perWork[to]), dollarText(r.perWork[h.candidate]))
	r.buy(to, h.units, why)
	r.plan.Release = append(r.plan.Release, Release{Pool: p, Why: why})
	r.plan.Switch = &Switch{
		From: p, To: q, FromMTTF: r.plan.Considered[h.candidate].MTTF.Mean, ToMTTF: r.plan.Considered[to].MTTF.Mean, Why: why,
	}
	r.plan.Why = "switch: " + why
}

// explain gives a reason to the candidates that have none yet.
func (r *spreading) explain() {
	for i := range r.plan.Considered {
		c := &r.plan.Considered[i]
		switch {
		case c.Why != "":
		case r.Pools[i].OnDemand() && !r.Job.alone:
			c.Why = "on demand: only when there is no time left to wait for spot capacity"
		case c.Chosen:
			c.Why = "held; work costs $" + dollarText(r.perWork[i]) + " per vCPU hour"
		case r.room(i) <= 0:
			c.Why = "no capacity now"
		default:
			c.Why = "work costs $" + dollarText(r.perWork[i]) + " per vCPU hour, more than elsewhere"
		}
	}
	if r.Want.total() > r.fleet.total() {
		r.plan.AskAgain = r.Now.Add(5 * time.Minute)
	}
}
