// Package budget watches a run's spending: in total, and per hour at present prices. It is fed the journal's entries
// and returns what to do: warn, shrink, continue, stop, each with its figures. The controller (elasticity/fleet), which
// considers the total when it buys, decides the end at the total.
//
// It is a plain value: its time is that of the entries, and the same entries give the same decisions. It knows nothing about how a run is
// paused or stopped.
package budget

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// Do is a limit's action.
type Do string

// The actions at a limit.
const (
	Warn   Do = "warn"
	Shrink Do = "shrink" // a run: its transient machines are given up
	Pause  Do = "pause"  // a cluster: waiting jobs are not started
	GoOn   Do = "go-on"
	Stop   Do = "stop"
)

// Limits bound a run's spending. A zero limit is none.
type Limits struct {
	Total    market.USD
	PerHour  market.USD
	OverHour Do // Warn, Shrink or Stop
	// WarnAt is the share of a limit that causes a warning, such as 0.8; 0: none.
	WarnAt float64
}

// Decision is something to do.
type Decision struct {
	Do  Do
	Why string
	USD market.USD // the figure that was compared
}

// How often figures are computed, in market time: bills change by the hour and prices by minutes.
const (
	everyTotal = 5 * time.Minute
	everyHour  = time.Minute
	// rest is the minimum length of a pause, and how long a warning about the rate holds: prices fluctuate.
	rest = 10 * time.Minute
)

// Guard watches one run.
type Guard struct {
	limits Limits
	ledger cost.Ledger
	broken bool // the journal no longer has usable figures

	lookedTotal, lookedHour time.Time
	warnedTotal             bool
	warnedHour              time.Time
	over                    string // why the run must end
	exceeded                bool   // the total, with Warn

	prices map[market.Pool]market.USD
	held   map[string]market.Pool // transient machines that have not ended
	paused bool
	since  time.Time           // of the pause
	gave   map[market.Pool]int // machines that the pause gave up
	want   journal.Want        // the wanted capacity
	vcpus  map[string]int      // by type
}

// New watches from the first entry on.
func New(limits Limits) *Guard {
	return &Guard{limits: limits, prices: map[market.Pool]market.USD{}, held: map[string]market.Pool{}}
}

// Over returns why the run must end; empty: it need not.
func (g *Guard) Over() string { return g.over }

// Recall processes a past entry: the reaction to it is in the journal. A total that was used up then still is, unless the limit has
// changed.
func (g *Guard) Recall(e journal.Entry) {
	if !g.take(e) {
		return
	}
	g.total(e.T, nil)
	if e.Kind == journal.Done && e.Why == fleet.BudgetUsedUp(g.limits.Total) {
		g.over = e.Why
	}
}

// take reports whether anything is watched.
func (g *Guard) take(e journal.Entry) bool {
	if g.limits.Total == 0 && g.limits.PerHour == 0 || g.broken || g.over != "" {
		return false
	}
	if g.ledger.Add(e) != nil {
		g.broken = true
		return false
	}
	g.note(e)
	return true
}

func (g *Guard) total(now time.Time, out []Decision) []Decision {
	if g.limits.Total == 0 || now.Sub(g.lookedTotal) < everyTotal {
		return out
	}
	g.lookedTotal = now
	return g.lookAtTotal(now, out)
}

// Feed processes an entry and returns what to do.
func (g *Guard) Feed(e journal.Entry) []Decision {
	if !g.take(e) {
		return nil
	}
	out := g.total(e.T, nil)
	if g.limits.PerHour > 0 && g.over == "" && e.T.Sub(g.lookedHour) >= everyHour {
		g.lookedHour = e.T
		out = g.lookAtHour(e.T, out)
	}
	return out
}

// note records what a pause must know, even a pause by an earlier controller.
func (g *Guard) note(e journal.Entry) {
	switch e.Kind {
	case journal.Start:
		if d, err := e.StartDetails(); err == nil {
			g.want, g.vcpus = d.Want, map[string]int{}
			for _, m := range d.Machines {
				g.vcpus[m.Name] = m.VCPU
			}
		}
	case journal.Scale:
		if d, err := e.ScaleDetails(); err == nil && d.Want != nil {
			g.want = *d.Want
		}
	case journal.Price:
		pool, err := market.ParsePool(e.Pool)
		if price, err2 := market.ParseUSD(e.USD); err == nil && err2 == nil {
			g.prices[pool] = price
		}
	case journal.Launch:
		if pool, err := market.ParsePool(e.Pool); err == nil && e.Tier == "transient" {
			g.held[e.Instance] = pool
		}
	case journal.Evicted, journal.Terminated, journal.Failed:
		if e.Kind != journal.Failed || e.Ended != nil {
			delete(g.held, e.Instance)
		}
	case journal.Budget:
		switch e.To {
		case journal.Paused:
			g.pause(e.T)
		case journal.GoesOn:
			g.paused = false
		}
	}
}

func (g *Guard) pause(now time.Time) {
	if g.paused {
		return
	}
	g.paused, g.since, g.gave = true, now, map[market.Pool]int{}
	for _, pool := range g.held { // in any order: only the count matters
		g.gave[pool]++
	}
}

func (g *Guard) lookAtTotal(now time.Time, out []Decision) []Decision {
	spent, err := g.ledger.Spent(now)
	switch {
	case err != nil:
	case spent > g.limits.Total && !g.exceeded:
		g.exceeded, g.warnedTotal = true, true
		out = append(out, Decision{Warn, fmt.Sprintf("%s are spent, more than the budget of %s", spent.Cents(), g.limits.Total.Cents()), spent})
	case !g.warnedTotal && g.near(spent, g.limits.Total):
		g.warnedTotal = true
		out = append(out, Decision{Warn, fmt.Sprintf("%s of the budget of %s are spent", spent.Cents(), g.limits.Total.Cents()), spent})
	}
	return out
}

func (g *Guard) near(figure, limit market.USD) bool {
	return g.limits.WarnAt > 0 && float64(figure) >= g.limits.WarnAt*float64(limit)
}

func (g *Guard) lookAtHour(now time.Time, out []Decision) []Decision {
	limit := g.limits.PerHour
	if g.paused {
		return g.lookAtPause(now, out)
	}
	rate := g.ledger.Rate(now)
	over := fmt.Sprintf("the machines cost %s an hour, above limits.per_hour, %s", rate.Cents(), limit.Cents())
	quiet := !g.warnedHour.IsZero() && now.Sub(g.warnedHour) < rest
	switch {
	case rate > limit && g.limits.OverHour == Shrink:
		g.pause(now)
		out = append(out, Decision{Shrink, over, rate})
	case rate > limit && g.limits.OverHour == Stop:
		g.over = fmt.Sprintf("the budget of %s an hour is exceeded: the machines cost %s", limit.Cents(), rate.Cents())
		out = append(out, Decision{Stop, g.over, rate})
	case rate > limit && !quiet:
		g.warnedHour = now
		out = append(out, Decision{Warn, over, rate})
	case rate <= limit && g.near(rate, limit) && g.warnedHour.IsZero():
		g.warnedHour = now
		out = append(out, Decision{Warn, fmt.Sprintf("the machines cost %s of limits.per_hour, %s", rate.Cents(), limit.Cents()), rate})
	}
	return out
}

// lookAtPause ends a pause once the machines that were given up would fit again, with a twentieth to spare so that the next
// price does not begin another one.
func (g *Guard) lookAtPause(now time.Time, out []Decision) []Decision {
	if now.Sub(g.since) < rest || len(g.held) > 0 {
		return out
	}
	fleet, known := g.fleet()
	would := g.ledger.Rate(now) + fleet
	if !known {
		return out
	}
	if float64(would) > 0.95*float64(g.limits.PerHour) {
		return out
	}
	g.paused = false
	return append(out, Decision{GoOn, fmt.Sprintf("the machines that were given up would cost %s an hour with the others now, below limits.per_hour, %s",
		would.Cents(), g.limits.PerHour.Cents()), would})
}

// fleet returns the present hourly cost of the machines that were given up, as many as are wanted, the cheapest first: in the middle of a
// switch there are two fleets.
func (g *Guard) fleet() (perHour market.USD, known bool) {
	type offer struct {
		pool  market.Pool
		each  market.USD
		units int // units that one machine counts for
	}
	var offers []offer
	for _, pool := range slices.SortedFunc(maps.Keys(g.gave), market.Pool.Compare) {
		price, known := g.prices[pool]
		if !known {
			return 0, false
		}
		o := offer{pool, price, 1}
		if g.want.VCPU > 0 {
			o.units = max(g.vcpus[pool.Type], 1)
		}
		offers = append(offers, o)
	}
	slices.SortStableFunc(offers, func(a, b offer) int {
		return cmp.Compare(float64(a.each)/float64(a.units), float64(b.each)/float64(b.units))
	})
	need := max(g.want.Machines, g.want.VCPU)
	if need == 0 {
		need = math.MaxInt
	}
	for _, o := range offers {
		for n := g.gave[o.pool]; n > 0 && need > 0; n-- {
			perHour += o.each
			need -= o.units
		}
	}
	return perHour, true
}
