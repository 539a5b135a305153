package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
)

// Courses remembers how runs of one configuration went, and says what comes of a start from which everything would go the
// same way again. Of 50,000 starts a minute apart most do: they buy the same fleet and keep it to the end. The controller
// and its machines get the same commands at the same times after the start, but for prices about which there is
// nothing to do; only the bill differs, and is made out by the rule book from the prices of its own hours.
//
// A start takes a known course if
//   - the policy, asked as the controller asks it, buys the same at the same time, and finds nothing to do at any later
//     price change, nor at those times at which it is asked although nothing has changed (idleness);
//   - what is bought is to be had, and stays within its bid to the end, and no eviction for capacity may hit it;
//   - no price comes while the controller has something else to do, when any event makes it look at everything
//     (wakeful): what it does then might come a little earlier.
//
// Every other start is simulated, and so is the first of each course. Not for concurrent use.
type Courses struct {
	policy  bidding.ByPrices
	asked   time.Duration // from the start until the policy is asked first; 0 = not known yet
	known   []*course
	changes []change // of all prices, in order of time
	idle    []*idleness
}

// course is how a run went: a single purchase by the policy, and no eviction.
type course struct {
	at      time.Duration // of the purchase
	bought  bidding.Acquire
	usages  []usage // of all machines
	wakeful []span  // in order
	length  time.Duration
	result  Result // but for Start and Cost
}

// usage is the life of some machines that were bought and ended together.
type usage struct {
	pool      market.Pool
	bid       market.USD
	asked     time.Duration // when the provider was asked for them
	from, to  time.Duration
	endedBy   market.EndedBy
	machines  int
	constant  *market.History // of the price, when they are bought on demand
	candidate int             // otherwise its place among the configuration's pools
}

// span is a time from the start of a run on, both ends included.
type span struct{ from, to time.Duration }

// change is one or more price changes at the same instant.
type change struct {
	at    time.Time
	pools []int // indices in Config.Pools
}

// Run returns what Run gives. All configurations that it is ever asked about are to be alike but for Start and Deadline.
func (c *Courses) Run(cfg Config) (Result, error) {
	if !repeatable(&cfg) {
		return Run(cfg)
	}
	if c.policy == nil {
		c.policy, c.changes = cfg.Policy.(bidding.ByPrices), changes(cfg.Pools)
	}
	if r, ok := c.recall(&cfg); ok {
		return r, nil
	}
	o := &observer{policy: c.policy}
	r, err := runObserved(cfg, o)
	if err == nil {
		c.learn(&cfg, o, r)
	}
	return r, err
}

// repeatable reports whether the start of a run, but for prices, changes nothing, and whether it is the policy alone that they
// matter to: what serves in place of a reliable machine is chosen by prices, too.
func repeatable(cfg *Config) bool {
	_, ok := cfg.Policy.(bidding.ByPrices)
	return ok && cfg.Reliable.Count > 0 && cfg.Record == nil && len(cfg.Faults) == 0 && cfg.Budget == 0 && cfg.PerHour == 0 && cfg.Timing.PriceLag == 0 &&
		cfg.Rules != nil && cfg.Rules.Terms().MaxLife == 0 && cfg.Start.Nanosecond() == 0 &&
		!slices.ContainsFunc(cfg.Pools, func(p bidding.Candidate) bool { return p.Availability != nil })
}

// changes returns the price changes of all pools.
func changes(pools []bidding.Candidate) (all []change) {
	for i, p := range pools {
		first, _ := p.History.First()
		last, _ := p.History.Last()
		for _, point := range p.History.Points(first.At.Add(-1), last.At) {
			all = append(all, change{point.At, []int{i}})
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return a.at.Compare(b.at) })
	kept := all[:0]
	for _, x := range all {
		if n := len(kept); n > 0 && kept[n-1].at.Equal(x.at) {
			kept[n-1].pools = append(kept[n-1].pools, x.pools...)
			continue
		}
		kept = append(kept, x)
	}
	return kept
}

// recall returns what comes of a start, if it takes a known course.
func (c *Courses) recall(cfg *Config) (Result, bool) {
	if len(c.known) == 0 {
		return Result{}, false
	}
	at := cfg.Start.Add(c.asked)
	plan := c.policy.Plan(viewOf(cfg, at, nil, nil))
	if len(plan.Acquire) != 1 || len(plan.Acquire[0].Or) > 0 || plan.Switch != nil || !plan.AskAgain.IsZero() {
		return Result{}, false // where the provider chooses, it is simulated
	}
	for _, known := range c.known {
		b := plan.Acquire[0]
		if known.at != c.asked || b.Pool != known.bought.Pool || b.Bid != known.bought.Bid || b.Count != known.bought.Count {
			continue
		}
		if !c.takes(cfg, known) {
			return Result{}, false
		}
		r := known.result
		r.Start = cfg.Start
		cost, err := known.bill(cfg)
		r.Cost = cost
		return r, err == nil
	}
	return Result{}, false
}

// learn keeps the course of a run, if it is one that others may take.
func (c *Courses) learn(cfg *Config, o *observer, r Result) {
	if len(o.plans) == 0 {
		return
	}
	c.asked = o.plans[0].at
	if len(o.steps) != 1 || len(o.steps[0].plan.Acquire) != 1 || len(o.steps[0].plan.Acquire[0].Or) > 0 || o.steps[0].plan.Switch != nil || o.refused || o.steps[0].at != c.asked ||
		!r.Finished() || r.Evictions+r.Switches+r.Rollbacks > 0 {
		return
	}
	new := &course{
		at: c.asked, bought: o.steps[0].plan.Acquire[0], usages: o.usages(cfg), wakeful: o.spans(), length: r.Runtime, result: r,
	}
	same := func(k *course) bool {
		return k.bought.Pool == new.bought.Pool && k.bought.Bid == new.bought.Bid && k.bought.Count == new.bought.Count
	}
	if slices.ContainsFunc(c.known, same) || !c.takes(cfg, new) {
		return
	}
	if cost, err := new.bill(cfg); err == nil && cost == r.Cost {
		c.known = append(c.known, new)
	}
}

// takes reports whether a start that buys what the course does takes that course to its end.
func (c *Courses) takes(cfg *Config, k *course) bool {
	end := cfg.Start.Add(k.length)
	if cfg.Horizon > 0 && k.length >= cfg.Horizon || len(c.changes) == 0 || !c.changes[len(c.changes)-1].at.After(end) {
		return false
	}
	for i := range k.usages {
		if u := &k.usages[i]; u.pool.Class == market.Spot && (!u.toBeHad(cfg) || cfg.Hazard.Hits(u.pool, cfg.Start, k.length)) {
			return false
		}
	}
	first, _ := slices.BinarySearchFunc(c.changes, cfg.Start, func(x change, at time.Time) int {
		return cmp.Or(x.at.Compare(at), -1) // after the start
	})
	last := first
	for last < len(c.changes) && !c.changes[last].at.After(end) {
		last++
	}
	return c.undisturbed(cfg, k, first, last) && c.idleThrough(cfg, k, first, last)
}

// toBeHad reports whether the machines are sold at that start, and not taken back.
func (u *usage) toBeHad(cfg *Config) bool {
	h := cfg.Pools[u.candidate].History
	price, known := h.At(cfg.Start.Add(u.asked))
	if !known || price > u.bid {
		return false
	}
	above, ever := h.FirstAbove(cfg.Start.Add(u.from), u.bid)
	return !ever || above.After(cfg.Start.Add(u.to))
}

// undisturbed reports whether the controller is at rest, or waits for what prices do not bring about, at each price change
// from first to last, and whenever it is about to ask the policy although nothing has changed.
func (c *Courses) undisturbed(cfg *Config, k *course, first, last int) bool {
	spans := k.wakeful
	wakeful := func(at time.Duration) bool {
		for len(spans) > 0 && spans[0].to < at {
			spans = spans[1:]
		}
		return len(spans) > 0 && spans[0].from <= at
	}
	asked := k.at
	for i := first; i <= last; i++ {
		at := k.length
		if i < last {
			at = c.changes[i].at.Sub(cfg.Start)
		}
		for asked += cfg.Settings.PlanEvery; asked < at; asked += cfg.Settings.PlanEvery {
			if wakeful(asked) {
				return false
			}
		}
		if i < last && wakeful(at) {
			return false
		}
		asked = max(at, k.at)
	}
	return true
}

// idleThrough reports whether the policy finds nothing to do from the purchase to the end.
func (c *Courses) idleThrough(cfg *Config, k *course, first, last int) bool {
	bought, end := cfg.Start.Add(k.at), cfg.Start.Add(k.length)
	for first < last && !c.changes[first].at.After(bought) {
		first++
	}
	launched := bought
	for i := range k.usages {
		if u := &k.usages[i]; u.pool == k.bought.Pool {
			launched = cfg.Start.Add(u.from)
		}
	}
	held := bidding.Allocation{Pool: k.bought.Pool, Bid: k.bought.Bid, Count: k.bought.Count, Ready: k.bought.Count, Launch: launched}
	next := end
	if first < len(c.changes) {
		next = c.changes[first].at
	}
	if !c.idleBetween(cfg, bought, next, held) {
		return false
	}
	settled := launched.Add(c.policy.Settles())
	for ; first < last && c.changes[first].at.Before(settled); first++ {
		if !c.idleAt(cfg, first, held) {
			return false
		}
	}
	return first >= last || c.idlenessOf(held).through(c, cfg, first, last)
}

// idleAt reports whether the policy finds nothing to do at a price change, and from then until the next.
func (c *Courses) idleAt(cfg *Config, i int, held bidding.Allocation) bool {
	x := &c.changes[i]
	// Prices that change at the same instant arrive one after the other: any of them may come first.
	if len(x.pools) > 3 {
		return false
	}
	all := 1<<len(x.pools) - 1
	for told := 1; told <= all; told++ {
		var late []int
		for n, pool := range x.pools {
			if told&(1<<n) == 0 {
				late = append(late, pool)
			}
		}
		if !c.nothingToDo(cfg, x.at, late, held) {
			return false
		}
	}
	next := x.at
	if i+1 < len(c.changes) {
		next = c.changes[i+1].at
	}
	return c.idleBetween(cfg, x.at, next, held)
}

// idleBetween reports whether the policy finds nothing to do when it is asked every now and then, after a time at which it
// was asked, although no price changes before next.
func (c *Courses) idleBetween(cfg *Config, asked, next time.Time, held bidding.Allocation) bool {
	for at := asked.Add(cfg.Settings.PlanEvery); at.Before(next); at = at.Add(cfg.Settings.PlanEvery) {
		if !c.nothingToDo(cfg, at, nil, held) {
			return false
		}
	}
	return true
}

// nothingToDo asks the policy itself; the last price of some pools comes later.
func (c *Courses) nothingToDo(cfg *Config, now time.Time, late []int, held bidding.Allocation) bool {
	plan := c.policy.Plan(viewOf(cfg, now, late, []bidding.Allocation{held}))
	return len(plan.Acquire) == 0 && len(plan.Release) == 0 && plan.Switch == nil && plan.AskAgain.IsZero()
}

// viewOf is the state as the controller shows it to a policy that goes by prices.
func viewOf(cfg *Config, now time.Time, late []int, held []bidding.Allocation) bidding.State {
	s := bidding.State{Now: now, Want: cfg.Want, Pools: slices.Clone(cfg.Pools), Chooses: cfg.Allocation != "", Held: held, StepsOnly: true}
	s.Job.Terms = cfg.Rules.Terms() // alike for all runs
	for i := range s.Pools {
		until := now
		if slices.Contains(late, i) {
			until = until.Add(-1)
		}
		s.Pools[i].History = s.Pools[i].History.Until(until)
	}
	return s
}

// idleness finds, for a fleet without a purchase just now, the price changes at which the policy finds nothing to do, until the
// next: that does not depend on when a run started.
type idleness struct {
	held  bidding.Allocation
	known []verdict // Index: change
}

type verdict uint8

const (
	unknown verdict = iota
	nothing
	something
)

func (c *Courses) idlenessOf(held bidding.Allocation) *idleness {
	held.Launch = time.Time{}
	for _, i := range c.idle {
		if i.held == held {
			return i
		}
	}
	i := &idleness{held: held, known: make([]verdict, len(c.changes))}
	c.idle = append(c.idle, i)
	return i
}

// through reports whether there is nothing to do from one change until before another.
func (d *idleness) through(c *Courses, cfg *Config, first, last int) bool {
	for i := first; i < last; i++ {
		if d.known[i] == unknown {
			d.known[i] = something
			if c.idleAt(cfg, i, d.held) {
				d.known[i] = nothing
			}
		}
		if d.known[i] == something {
			return false
		}
	}
	return true
}

// bill is what all machines cost at a start.
func (k *course) bill(cfg *Config) (sum market.USD, err error) {
	for i := range k.usages {
		u := &k.usages[i]
		history := u.constant
		if history == nil {
			history = cfg.Pools[u.candidate].History
		}
		life := market.Usage{Pool: u.pool, Bid: u.bid, Start: cfg.Start.Add(u.from), End: cfg.Start.Add(u.to), EndedBy: u.endedBy}
		lines, err := cfg.Rules.Charges(life, history, life.End)
		if err != nil {
			return 0, err
		}
		sum += market.Total(lines) * market.USD(u.machines)
	}
	return sum, nil
}
