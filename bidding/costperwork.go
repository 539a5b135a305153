package bidding

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/market"
)

// CostPerWork chooses, keeps and drops allocations by the expected cost of the job's work, in the manner of Proteus's
// BidBrain (Harlap et al., EuroSys 2017, section 4): time that the provider interrupts is free, so that the best bid
// is rarely the safest one.
//
// Each option to buy, keep or do nothing is valued by
//
//	worth x work - paid - upkeep x time         until it is evicted, or its billing increment ends
//
// in expectation. Work, payment and time are estimated from what prices did within one increment after moments of the
// last week at which they were similar (priceOdds). Worth is the cost of a unit of work otherwise, including upkeep
// (worth): anything worse is better done later. It rises while the job waits (worthNow). With whole-hour billing,
// machines are paid by the hour, so each is decided about shortly before its hour ends: kept at its bid, replaced by
// others at a new bid, which start while it still works, or released. It waits for better prices while that is
// expected to be cheaper, but only within patience.
type CostPerWork struct {
	// Memo caches what follows from the past alone, for many simulated runs over the same past; nil = no cache.
	Memo Memo
	// Days caches the past moments that forecasts share; nil = no cache.
	Days *Days
}

// Memo caches values by key; it calls make for missing ones.
type Memo interface {
	Recall(key any, make func() any) any
}

// Name returns "cost-per-work".
func (CostPerWork) Name() string { return "cost-per-work" }

const (
	// pricesLookback is how much of the past is considered.
	pricesLookback = 7 * 24 * time.Hour
	// patience is how much longer than twice its undisturbed time a job without a deadline may take: for cheaper prices
	// here, and in Capacity before it buys on demand.
	patience = 12 * time.Hour
	// forecastEvery is how often the forecast is renewed.
	forecastEvery = time.Hour
	// betterSoon is the time until a better moment to buy, if one comes: the time over which prices in busy markets
	// become independent. A purchase may be worse than doing nothing by this much upkeep.
	betterSoon = time.Hour
)

// bidFactors are the bids to compare, as multiples of the price; the highest allowed bid is added.
var bidFactors = [...]float64{1, 1.0008, 1.002, 1.005, 1.01, 1.02, 1.05, 1.12, 1.3, 2, 5}

// Plan buys what is missing if that is worth it, and decides about machines whose paid time is nearly over. Without
// bids there is no bid to choose: the cost of work follows from the rate of evictions, as in Capacity.
//
// Invariant: a plan is a function of the State. A Memo contains only what follows from prices before the present hour,
// so plans are the same with and without one. It must serve one job only: start-up, notice and terms of sale are not in
// its key.
//
//  1. consider notes of each pool whether it can be bought from (whyNot).
//  2. renew decides about each allocation twice: a start-up before its paid time ends, when others may be bought in its place, and for
//     the last time just before it would have to leave. It comes before fill, so that what is replaced is not bought again.
//  3. fill buys the best option for what is missing (score), unless its worth less its cost is below least: then it waits.
//  4. finish says when Plan must run again: at the moments of step 2, and every five minutes while something is missing.
//
// Rejected: a forecast from all prices until now. Runs that share a Memo got different plans depending on which
// computed it first within an hour.
func (p CostPerWork) Plan(s State) Plan {
	if s.Job.Terms.Increment <= 0 {
		return Capacity{}.Plan(s)
	}
	b := &budgeting{CostPerWork: p, State: s, fleet: fleetOf(s)}
	missing := b.Want.total() - b.fleet.total()
	if b.StepsOnly && missing <= 0 && !slices.ContainsFunc(b.Held, b.undecided) {
		b.finish()
		return b.plan
	}
	b.consider()
	b.renew()
	if missing > 0 && len(b.plan.Acquire) == 0 {
		b.fill(missing)
	}
	b.finish()
	return b.plan
}

// budgeting is one call of Plan.
type budgeting struct {
	CostPerWork
	State
	plan  Plan
	fleet fleet

	forecast *forecast
	worth    float64  // of a unit of work, now
	offers   []offer  // Index: candidate; empty if the number of machines is unknown
	options  []option // the best option of each candidate that can be bought now
	factors  []float64
	tried    []market.USD // bids tried
}

// forecast is what follows from the past alone.
type forecast struct {
	worth float64
	odds  []priceOdds // Index: candidate
}

// option is a purchase, or machines to keep.
type option struct {
	candidate int
	machines  int
	bid       market.USD
	prospect  prospect
	score     float64 // compared with doing nothing at no cost; in billionths of a dollar, for the whole fleet
	perWork   float64 // expected cost per unit of work, including upkeep
}

// consider evaluates every candidate.
func (b *budgeting) consider() {
	b.plan.Considered = make([]Considered, len(b.Pools))
	for i := range b.Pools {
		c := &b.plan.Considered[i]
		*c = look(&b.Pools[i], b.State, BidOnDemand)
		c.Why = whyNot(&b.Pools[i], c, b.State)
		_, c.Chosen = b.fleet.in(i)
	}
}

// span returns the input of prospects, for machines that start working after some time.
func (b *budgeting) span(startup time.Duration) span {
	return span{
		increment: b.Job.Terms.Increment, startup: startup, notice: b.Job.Notice, handover: b.Job.Handover + b.Job.Undone/2,
		free: b.Job.Terms.FreeIncrement, left: 365 * 24 * time.Hour,
	}
}

// score values every purchase possible now for a part of what is wanted.
func (b *budgeting) score(wanted units) {
	b.lookAhead()
	b.options = b.options[:0]
	rest := b.rest()
	for i := range b.Pools {
		if b.plan.Considered[i].Why != "" || b.offers[i].rate <= 0 {
			continue
		}
		n := b.crew(i, wanted, rest, b.Now, b.Job.Startup)
		if best, ok := b.best(i, n, rest, b.Job.Startup, b.bids(i)); ok {
			b.options = append(b.options, best)
			c := &b.plan.Considered[i]
			c.Bid = best.bid
		}
	}
	slices.SortStableFunc(b.options, func(x, y option) int { return cmp.Compare(y.score, x.score) })
}

// bids returns the bids to compare for a new machine, in ascending order.
func (b *budgeting) bids(candidate int) []market.USD {
	if b.offers[candidate].onDemand {
		return []market.USD{0}
	}
	price, bound := b.plan.Considered[candidate].Price, b.offers[candidate].bound
	bids := b.tried[:0]
	for _, factor := range bidFactors {
		if bid := market.USD(math.Ceil(float64(price) * factor)); bid < bound && (len(bids) == 0 || bid > bids[len(bids)-1]) {
			bids = append(bids, bid)
		}
	}
	b.tried = append(bids, bound)
	return b.tried
}

// best values machines of a candidate at several bids, for the rest of the work.
func (b *budgeting) best(candidate, machines int, rest float64, startup time.Duration, bids []market.USD) (best option, ok bool) {
	o, price := b.offers[candidate].sized(machines), b.plan.Considered[candidate].Price
	s := b.span(startup)
	if o.rate > 0 {
		s.left = min(s.left, time.Duration(min(max(rest, 0)/o.rate, s.left.Hours())*float64(time.Hour)))
	}
	prospects, known := []prospect{s.untilEnd()}, true
	if !o.onDemand {
		b.factors = b.factors[:0]
		for _, bid := range bids {
			b.factors = append(b.factors, float64(bid)/float64(price))
		}
		if prospects, known = b.prospects(candidate, price, b.factors, s); !known {
			prospects, bids = []prospect{s.untilEnd()}, bids[len(bids)-1:] // the safest bid
		}
	}
	for i, c := range prospects {
		pay := price
		if b.Job.Terms.PayBid && !o.onDemand {
			pay = bids[i]
		}
		paid, upkeep := float64(c.paid*o.perHour(pay)), float64(float64(b.Job.hour())*c.hours)
		work := c.work * o.rate
		one := option{candidate: candidate, machines: machines, bid: bids[i], prospect: c, score: float64(b.worth*work) - paid - upkeep}
		if work > 0 {
			one.perWork = (paid + upkeep) / work
		}
		if !ok || one.score > best.score {
			best, ok = one, true
		}
	}
	return best, ok
}

// prospects returns the prospects at several bids, as multiples of the price: those to compare for a new machine, or
// that of a held machine. False = nothing is known.
func (b *budgeting) prospects(candidate int, price market.USD, factors []float64, s span) (out []prospect, known bool) {
	odds := &b.forecast.odds[candidate]
	if len(factors) > 1 {
		return odds.prospectsAt(price, factors, s)
	}
	out = make([]prospect, len(factors))
	return out, odds.prospects(float64(price), factors, s, out)
}

// lookAhead computes or recalls the forecast, once per plan: the bids that it chooses are no limits.
func (b *budgeting) lookAhead() {
	if b.forecast != nil {
		return
	}
	b.offers = make([]offer, len(b.Pools))
	for i := range b.Pools {
		c := &b.Pools[i]
		n := b.Want.machines(b.Want.total(), c.Type)
		b.offers[i] = offer{
			history: c.History, machines: n, rate: float64(n) * c.Type.WorkRate(), onDemand: c.OnDemand(),
			bound: b.plan.Considered[i].Bid,
		}
		if c.OnDemand() {
			b.offers[i].bound = c.Type.OnDemand
		}
	}
	until := b.Now.Truncate(forecastEvery)
	compute := func() any { return b.lookBack(until) }
	switch {
	case b.Days != nil && b.Days.last.like(b, until):
		b.forecast = b.Days.last.forecast
	case b.Memo != nil:
		b.forecast = b.Memo.Recall(b.key(until), compute).(*forecast)
	default:
		b.forecast = compute().(*forecast)
	}
	if b.Days != nil {
		b.Days.last.keep(b, until)
	}
	b.worth = b.worthNow()
}

// forecastOf is the last forecast and its key: most plans need it again.
type forecastOf struct {
	*forecast
	forecastKey
	of     []market.Pool
	bounds []market.USD
}

func (f *forecastOf) like(b *budgeting, until time.Time) bool {
	if f.forecast == nil || f.until != until.Unix() || f.want != b.Want || f.upkeep != b.Job.hour() || len(f.of) != len(b.Pools) {
		return false
	}
	for i := range b.Pools {
		if f.bounds[i] != b.offers[i].bound || f.of[i] != b.Pools[i].Pool {
			return false
		}
	}
	return true
}

func (f *forecastOf) keep(b *budgeting, until time.Time) {
	if f.forecast == b.forecast {
		return
	}
	*f = forecastOf{b.forecast, forecastKey{until: until.Unix(), want: b.Want, upkeep: b.Job.hour()}, f.of[:0], f.bounds[:0]}
	for i := range b.Pools {
		f.of, f.bounds = append(f.of, b.Pools[i].Pool), append(f.bounds, b.offers[i].bound)
	}
}

// forecastKey is what a forecast depends on apart from the prices themselves.
type forecastKey struct {
	until  int64
	pools  string
	want   Want
	upkeep market.USD
}

func (b *budgeting) key(until time.Time) forecastKey {
	k := forecastKey{until: until.Unix(), want: b.Want, upkeep: b.Job.hour()}
	for i := range b.Pools {
		k.pools += b.Pools[i].Pool.String() + " " + b.offers[i].bound.String() + "\n"
	}
	return k
}

// lookBack uses only what was known just before a time: it is the same throughout the hour.
func (b *budgeting) lookBack(until time.Time) *forecast {
	s := b.span(b.Job.Startup)
	from := until.Add(-pricesLookback)
	var sold []offer
	f := &forecast{odds: make([]priceOdds, len(b.Pools))}
	for i := range b.Pools {
		o := b.offers[i]
		o.history = o.history.Until(until.Add(-1))
		if o.rate <= 0 || o.bound <= 0 {
			continue
		}
		sold = append(sold, o)
		if o.onDemand {
			continue
		}
		f.odds[i] = b.Days.lookOut(b.Pools[i].Pool, o.history, until, pricesLookback, s.increment)
		if first, ok := o.history.First(); ok && first.At.After(from) && first.At.Before(until) {
			from = first.At
		}
	}
	f.worth = worth(sold, from, until, float64(b.Job.hour()), s)
	return f
}

// least returns the score below which it is better to wait; minus infinity if there is no time for that, or if held
// machines cannot work without the missing ones.
func (b *budgeting) least() float64 {
	if b.hurried() || b.Job.Together && b.fleet.total() > 0 && b.fleet.total() < b.Want.total() {
		return math.Inf(-1)
	}
	return -float64(b.Job.hour()) * betterSoon.Hours()
}

// hurried reports whether the job must continue at any cost: because of its deadline, or because cheap times are too
// long in coming.
func (b *budgeting) hurried() bool { return b.waited() > 1 }

// waited returns how much of the time to wait has passed: 0 at first, 1 when the rest is just enough to do the work,
// and then more.
func (b *budgeting) waited() float64 {
	left, known := b.Job.WorkLeft()
	if !known {
		return b.Now.Sub(b.Job.Started).Hours() / patience.Hours()
	}
	slowest := b.slowest(func(i int) float64 { return b.offers[i].rate })
	if slowest <= 0 {
		return 0
	}
	hours := func(work float64) time.Duration { return time.Duration(work / slowest * float64(time.Hour)) }
	latest := b.Job.Deadline
	if latest.IsZero() {
		latest = b.Job.Started.Add(2*hours(b.Job.Work) + patience)
	}
	slack := latest.Sub(b.Now) - hours(left) - 2*b.Job.Startup
	if slack < 0 {
		return math.Inf(1)
	}
	all := latest.Sub(b.Job.Started) - hours(b.Job.Work) - 2*b.Job.Startup
	return 1 - min(float64(slack)/float64(max(all, 1)), 1)
}

// worthNow returns the cost of a unit of work otherwise. At first that is its cost in the week before. Those prices may
// not return: waiting ends with the highest price that the job may pay, so the value approaches that over the wait.
// Prices compare by ratios, so the interpolation is geometric.
func (b *budgeting) worthNow() float64 {
	usual, dearest := b.forecast.worth, math.Inf(1)
	for i := range b.offers {
		if o := &b.offers[i]; o.rate > 0 && o.bound > 0 {
			dearest = min(dearest, o.perWork(o.bound)+float64(b.Job.hour())/o.rate)
		}
	}
	if _, known := b.Job.WorkLeft(); !known || math.IsInf(dearest, 1) || usual <= 0 || dearest <= usual {
		return usual // also for endless work, such as shared hosts: it need not be done by any time
	}
	return usual * math.Pow(dearest/usual, min(b.waited(), 1))
}

// fill buys what is missing, if that is worth it.
func (b *budgeting) fill(missing units) {
	if b.rest() <= 0 {
		b.plan.Why = cmp.Or(b.plan.Why, "the work will be done within the time that is paid for")
		return
	}
	b.score(missing)
	if len(b.options) == 0 {
		b.plan.Why = "nothing can be bought now"
		return
	}
	best := b.options[0]
	if best.score < b.least() {
		b.plan.Why = fmt.Sprintf("waiting: the best, %s, would cost $%s per vCPU hour, and work is expected at $%s",
			b.name(best.candidate), dollarText(best.perWork), dollarText(b.worth))
		return
	}
	b.buy(best)
}

func (b *budgeting) buy(o option) {
	c := &b.plan.Considered[o.candidate]
	c.Chosen, c.Bid, c.Why = true, o.bid, b.whyOption(o)
	b.plan.Acquire = append(b.plan.Acquire, Acquire{
		Pool: c.Pool, Bid: o.bid, Count: o.machines, Why: c.Why,
	})
	b.plan.Why = fmt.Sprintf("%d of %s: %s", b.plan.Acquire[len(b.plan.Acquire)-1].Count, c.Pool, c.Why)
}

// whyOption explains an option by its expected results.
func (b *budgeting) whyOption(o option) string {
	price := b.plan.Considered[o.candidate].Price
	if b.offers[o.candidate].onDemand {
		return fmt.Sprintf("on demand at $%s: $%s expected per vCPU hour", price, dollarText(o.perWork))
	}
	return fmt.Sprintf("at bid $%s (price $%s) %.0f %% of hours are paid: $%s expected per vCPU hour", o.bid, price,
		100*o.prospect.paid, dollarText(o.perWork))
}

func (b *budgeting) name(candidate int) string {
	p := b.Pools[candidate].Pool
	return p.Zone + " " + p.Type
}

// dollarText formats an amount in billionths with four decimals.
func dollarText(billionths float64) string { return fmt.Sprintf("%.4f", billionths/1e9) }

// renew decides about machines whose paid time is nearly over: for the last time shortly before they would have to
// leave, and before that early enough for others to replace them.
func (b *budgeting) renew() {
	b.plan.Why = "what is held is paid for"
	held := slices.Clone(b.Held) // only the first can be replaced now, and the order must not depend on zones' names
	slices.SortStableFunc(held, func(x, y Allocation) int { return cmp.Or(b.last(x).Compare(b.last(y)), cmp.Compare(y.Count, x.Count)) })
	for _, h := range held {
		if !b.undecided(h) {
			continue
		}
		candidate := b.candidate(h.Pool)
		others := b.fleet.total() - units(h.Count)*b.Want.each(b.Pools[candidate].Type)
		final := !b.Now.Before(b.last(h))
		switch {
		case others >= b.Want.total():
			if final {
				b.release(h, h.Count, "others have taken their place, and their paid time has ended")
			}
		case h.Ready > 0:
			b.renewOne(h, candidate, final)
		}
	}
}

// undecided reports whether it is time to decide about the next increment of machines.
func (b *budgeting) undecided(h Allocation) bool {
	return !h.Draining && !h.Warned && h.Count > 0 && b.candidate(h.Pool) >= 0 && !b.Now.Before(b.last(h).Add(-b.Job.Startup))
}

// last returns the last time to decide whether machines stay for another increment.
func (b *budgeting) last(h Allocation) time.Time {
	return b.paidUntil(h).Add(-b.Job.Leave - b.Job.Leave/4)
}

// renewOne keeps an allocation for another increment, or replaces or gives up all or part of it.
func (b *budgeting) renewOne(h Allocation, candidate int, final bool) {
	replace := final == b.Job.alone && len(b.plan.Acquire) == 0
	if !final && !replace && b.StepsOnly {
		return
	}
	rest := b.rest(h)
	held := units(h.Count) * b.Want.each(b.Pools[candidate].Type)
	if replace || !b.StepsOnly {
		b.score(held)
	} else {
		b.lookAhead()
	}
	kept, worthKeeping := option{score: math.Inf(-1)}, false
	c := &b.plan.Considered[candidate]
	if price := c.Price; c.HasPrice && (h.Bid == 0 || price <= h.Bid) {
		bid := h.Bid
		if bid == 0 && !b.offers[candidate].onDemand {
			bid = b.offers[candidate].bound
		}
		if n := min(b.crew(candidate, held, rest, b.paidUntil(h), 0), h.Count); n > 0 {
			kept, worthKeeping = b.best(candidate, n, rest, 0, []market.USD{bid})
		}
	}
	if replace && len(b.options) > 0 {
		// Others start while these still work, but these must leave a little before their hour ends. Machines that keep
		// their own work move when the hour ends.
		o := b.options[0]
		upkeep := float64(b.Job.hour()) * b.Job.Startup.Hours()
		unused := float64(b.worth*b.offers[candidate].sized(h.Count).rate) * b.Job.Leave.Hours()
		if o.machines > 0 && o.score+upkeep-unused > kept.score && o.score >= b.least() {
			b.buy(o)
			if final {
				b.release(h, h.Count, "others take their place, and their paid time has ended")
			}
			return
		}
	}
	switch {
	case !final:
	case rest <= 0:
		b.release(h, h.Count, "the work will be done without another hour of theirs")
		return
	case !worthKeeping || kept.score < b.least():
		b.release(h, h.Count, fmt.Sprintf("another hour would cost $%s per vCPU hour, and work is expected at $%s",
			dollarText(kept.perWork), dollarText(b.worth)))
		return
	case kept.machines < h.Count:
		b.release(h, h.Count-kept.machines, "the others will do the rest of the work within the next hour")
	}
	b.plan.Why = "kept: " + b.whyOption(kept)
}

func (b *budgeting) release(h Allocation, count int, why string) {
	r := Release{Pool: h.Pool, Launch: h.Launch, Why: why}
	if count < h.Count {
		r.Count = count
	}
	b.plan.Release = append(b.plan.Release, r)
	b.plan.Why = fmt.Sprintf("%d of %s are given back: %s", count, h.Pool, why)
}

// paidUntil returns the end of a machine's present increment.
func (b *budgeting) paidUntil(h Allocation) time.Time {
	n := b.Now.Sub(h.Launch)/b.Job.Terms.Increment + 1
	return h.Launch.Add(n * b.Job.Terms.Increment)
}

func (b *budgeting) candidate(p market.Pool) int {
	return slices.IndexFunc(b.Pools, func(c Candidate) bool { return c.Pool == p })
}

// finish adds missing reasons and sets when Plan must run again.
func (b *budgeting) finish() {
	for i := range b.plan.Considered {
		c := &b.plan.Considered[i]
		switch {
		case c.Why != "":
		case c.Chosen:
			c.Why = "held"
		default:
			c.Why = "not the cheapest per work"
		}
	}
	ask := func(t time.Time) {
		if t.After(b.Now) && (b.plan.AskAgain.IsZero() || t.Before(b.plan.AskAgain)) {
			b.plan.AskAgain = t
		}
	}
	if b.Want.total() > b.fleet.total() {
		ask(b.Now.Add(5 * time.Minute))
	}
	for _, h := range b.Held {
		if h.Draining || h.Warned {
			continue
		}
		last := b.last(h)
		ask(last.Add(-b.Job.Startup))
		ask(last)
		ask(last.Add(b.Job.Terms.Increment - b.Job.Startup))
	}
}
