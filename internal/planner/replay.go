package planner

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
)

// Forecast is what a run is expected to cost and how long it is expected to take.
type Forecast struct {
	Cost Range[market.USD]
	Time Range[time.Duration] // market time
	// Basis says in words what the figures rest on, or why they are unknown.
	Basis string
}

// Range is a middle figure with the lower and upper ends of its middle nine tenths (P5, P50, P95).
type Range[T cmp.Ordered] struct {
	Known             bool
	Low, Middle, High T
	// HighOpen: some of the high figures are only lower bounds, so High may be higher.
	HighOpen bool
}

// Replay estimates by what the same policy would have met in the recent past: the run is started at many past
// instants and followed through the prices that came then: bought, evicted, switched and billed.
//
// It knows machines and money, not parameter servers: the work of a second is the sum of the rates of those
// that compute. The simulator will know better, behind the same interface.
type Replay struct {
	Every     time.Duration // between two starts; 0 = 1h
	Lookback  time.Duration // from the first start to the last; 0 = 7 days: one of each weekday
	MinStarts int           // with fewer usable starts the figures are unknown; 0 = 24
	Step      time.Duration // how often the policy is asked; 0 = 5 min, its own patience
}

func (r Replay) withDefaults() Replay {
	r.Every = cmp.Or(r.Every, time.Hour)
	r.Lookback = cmp.Or(r.Lookback, 7*24*time.Hour)
	r.MinStarts = cmp.Or(r.MinStarts, 24)
	r.Step = cmp.Or(r.Step, 5*time.Minute)
	return r
}

// Estimate replays the past. The last start lies twice the undisturbed time before now, so that nearly every
// replay ends before the history does: leaving out those that do not would favour quick ones.
func (r Replay) Estimate(in Input) (Forecast, error) {
	r = r.withDefaults()
	last := in.Now.Add(-2 * in.slowestUndisturbed()).Truncate(time.Second)
	var runs []run
	for start := last; !start.Before(last.Add(-r.Lookback)); start = start.Add(-r.Every) {
		if !in.anyPriceAt(start) {
			break // before the history
		}
		one, err := r.replay(in, start)
		if err != nil {
			return Forecast{}, err
		}
		runs = append(runs, one)
	}
	if len(runs) < r.MinStarts {
		return Forecast{Basis: tooFew(len(runs), r.MinStarts)}, nil
	}
	return summarize(runs, last.Add(-time.Duration(len(runs)-1)*r.Every), last, r.Every), nil
}

// slowestUndisturbed is the time on the wanted machines of the type with which it takes longest.
func (in Input) slowestUndisturbed() time.Duration {
	slowest := time.Duration(0)
	for _, c := range in.Pools {
		if vcpus := in.machines(c.Type) * c.Type.VCPU; vcpus > 0 {
			slowest = max(slowest, in.undisturbed(vcpus))
		}
	}
	if slowest == 0 {
		slowest = in.undisturbed(in.Reliable.Count * in.Reliable.Type.VCPU)
	}
	return slowest
}

func (in Input) anyPriceAt(t time.Time) bool {
	return slices.ContainsFunc(in.Pools, func(c bidding.Candidate) bool {
		_, known := c.History.At(t)
		return known
	})
}

// run is the outcome of one replay.
type run struct {
	time     time.Duration
	cost     market.USD
	finished bool // before the history ended
}

// group is some machines that were launched together.
type group struct {
	bidding.Allocation
	candidate int
	ready     time.Time
	leaveAt   time.Time // when their replacement is ready; zero = not replaced
	end       time.Time // zero = not ended
	endedBy   market.EndedBy
}

// replayer follows one run through the past.
type replayer struct {
	Input
	step  time.Duration
	start time.Time
	at    time.Time
	done  float64 // work
	// stalled: nothing is computed before then.
	stalled time.Time
	groups  []group
}

func (r Replay) replay(in Input, start time.Time) (run, error) {
	p := &replayer{Input: in, step: r.Step, start: start, at: start, stalled: start.Add(in.Overheads.Start)}
	for p.at.Before(in.Now) {
		if err := p.retire(); err != nil {
			return run{}, err
		}
		p.act(p.Policy.Plan(p.state()))
		next := p.nextEvent()
		if end, ok := p.finishBy(next); ok {
			p.at = end
			cost, err := p.bill()
			return run{time: end.Sub(start), cost: cost, finished: true}, err
		}
		p.done += p.workUntil(next)
		p.at = next
	}
	cost, err := p.bill()
	return run{time: p.at.Sub(start), cost: cost}, err
}

// retire ends machines whose price is above their bid, and those that have left and are paid no longer.
func (p *replayer) retire() error {
	held, evicted := 0, 0
	for i := range p.groups {
		g := &p.groups[i]
		if !g.end.IsZero() {
			continue
		}
		held++
		if price, known := p.Pools[g.candidate].History.At(p.at); known && price > g.Bid && g.Pool.Class == market.Spot {
			g.end, g.endedBy = p.at, market.ByProvider
			evicted++
			continue
		}
		if g.leaveAt.IsZero() || g.leaveAt.After(p.at) {
			continue
		}
		g.Draining = true
		until, err := p.paidUntil(g)
		if err != nil {
			return err
		}
		if !until.After(p.at) {
			g.end, g.endedBy = p.at, market.ByUser
		}
	}
	if evicted > 0 && evicted == held {
		p.stalled = later(p.stalled, p.at.Add(p.Overheads.Eviction))
	}
	return nil
}

// paidUntil gives the end of the time that is paid for already.
func (p *replayer) paidUntil(g *group) (time.Time, error) {
	if p.at.Sub(g.Launch)%time.Hour == 0 {
		return p.at, nil // the next hour begins only for machines that stay
	}
	charges, err := p.Rules.Charges(p.usage(g), p.Pools[g.candidate].History, p.at)
	if err != nil || len(charges) == 0 {
		return p.at, err
	}
	return charges[len(charges)-1].To, nil
}

func (p *replayer) usage(g *group) market.Usage {
	return market.Usage{Pool: g.Pool, Bid: g.Bid, Start: g.Launch, End: g.end, EndedBy: g.endedBy}
}

// state is what the policy would have seen.
func (p *replayer) state() bidding.State {
	s := bidding.State{Now: p.at, Want: p.Want, Job: p.job(p.start, p.done), Pools: knownAt(p.Pools, p.at)}
	for _, g := range p.groups {
		if g.end.IsZero() {
			s.Held = append(s.Held, g.Allocation)
		}
	}
	slices.SortStableFunc(s.Held, func(a, b bidding.Allocation) int {
		return cmp.Or(a.Pool.Compare(b.Pool), a.Launch.Compare(b.Launch))
	})
	return s
}

// act does what the policy says, as far as capacity goes.
func (p *replayer) act(plan bidding.Plan) {
	ready := p.at.Add(p.Overheads.Start)
	bought := false
	for _, a := range plan.Acquire {
		i := slices.IndexFunc(p.Pools, func(c bidding.Candidate) bool { return c.Pool == a.Pool })
		count := min(a.Count, p.room(a.Pool))
		if i < 0 || count <= 0 {
			continue
		}
		bought = true
		p.groups = append(p.groups, group{
			Allocation: bidding.Allocation{Pool: a.Pool, Bid: a.Bid, Count: count, Launch: p.at},
			candidate:  i, ready: ready,
		})
	}
	for _, release := range plan.Release {
		for i := range p.groups {
			g := &p.groups[i]
			if release.Of(g.Pool, g.Launch) && g.end.IsZero() && g.leaveAt.IsZero() && g.Launch.Before(p.at) && (bought || len(plan.Acquire) == 0) {
				g.leaveAt = ready
			}
		}
	}
}

// room is how many machines a pool has left.
func (p *replayer) room(pool market.Pool) int {
	limit, limited := p.Capacity[pool]
	if !limited {
		return 1 << 30
	}
	for _, g := range p.groups {
		if g.Pool == pool && g.end.IsZero() {
			limit -= g.Count
		}
	}
	return limit
}

// nextEvent is the next instant at which something may change: the policy's next turn, a machine becoming
// ready or leaving, a price rising above a bid, the end of the history. Whole seconds, as launches are.
func (p *replayer) nextEvent() time.Time {
	next := p.at.Add(p.step)
	consider := func(t time.Time) {
		if t.After(p.at) && t.Before(next) {
			next = t
		}
	}
	consider(p.stalled)
	consider(p.Now)
	for i := range p.groups {
		g := &p.groups[i]
		if !g.end.IsZero() {
			continue
		}
		consider(g.ready)
		consider(g.leaveAt)
		if g.Draining {
			hours := p.at.Sub(g.Launch)/time.Hour + 1
			consider(g.Launch.Add(hours * time.Hour))
		}
		if above, ok := p.Pools[g.candidate].History.FirstAbove(p.at, g.Bid); ok && g.Pool.Class == market.Spot {
			consider(above)
		}
	}
	if whole := next.Truncate(time.Second); whole.Before(next) {
		return whole.Add(time.Second)
	}
	return next
}

// rateNow is the work per second at present.
func (p *replayer) rateNow() float64 {
	if p.stalled.After(p.at) {
		return 0
	}
	vcpus, machines := 0, 0
	for i := range p.groups {
		if g := &p.groups[i]; g.end.IsZero() && !g.ready.After(p.at) {
			vcpus += g.Count * p.Pools[g.candidate].Type.VCPU
			machines += g.Count
		}
	}
	if vcpus == 0 || float64(machines) <= p.ThreeAbove*float64(p.Reliable.Count) {
		vcpus += p.Reliable.Count * p.Reliable.Type.VCPU
	}
	return p.rate(vcpus)
}

func (p *replayer) workUntil(t time.Time) float64 { return p.rateNow() * t.Sub(p.at).Seconds() }

// finishBy says when the work is done, if that is by t.
func (p *replayer) finishBy(t time.Time) (time.Time, bool) {
	if p.done+p.workUntil(t) < p.Work {
		return time.Time{}, false
	}
	seconds := (p.Work - p.done) / p.rateNow()
	return p.at.Add(wholeSeconds(time.Duration(seconds * float64(time.Second)))), true
}

// bill ends everything now and adds up what it costs.
func (p *replayer) bill() (market.USD, error) {
	var total market.USD
	for i := range p.groups {
		g := &p.groups[i]
		if g.end.IsZero() {
			g.end, g.endedBy = p.at, market.ByUser
		}
		charges, err := p.Rules.Charges(p.usage(g), p.Pools[g.candidate].History, p.at)
		if err != nil {
			return 0, err
		}
		total += market.Total(charges) * market.USD(g.Count)
	}
	reliable := market.Usage{Pool: p.Reliable.Pool, Start: p.start, End: p.at, EndedBy: market.ByUser}
	charges, err := p.Rules.Charges(reliable, market.Constant(p.Reliable.Type.OnDemand), p.at)
	if err != nil {
		return 0, err
	}
	return total + market.Total(charges)*market.USD(p.Reliable.Count), nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
