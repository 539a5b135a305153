package bidding

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierml/tierml/market"
)

// drawOutlook returns a small outlook: a few steps of work and slack.
func drawOutlook(t *rapid.T) outlook {
	rates := func(name string) (r market.SpellRates) {
		for k := range r {
			r[k] = float64(rapid.IntRange(1, 400).Draw(t, name)) / 50
		}
		return r
	}
	start := time.Duration(rapid.IntRange(1, 2).Draw(t, "start")) * 6 * time.Minute
	o := outlook{
		all:   market.Spells{Up: rates("up"), Down: rates("down"), Rescue: float64(rapid.IntRange(0, 4).Draw(t, "rescue")) / 4},
		price: float64(rapid.IntRange(1, 20).Draw(t, "price")) / 16, start: start,
		free: time.Duration(rapid.IntRange(0, 3).Draw(t, "free")) * 6 * time.Minute,
		work: time.Duration(rapid.IntRange(1, 4).Draw(t, "work")) * 6 * time.Minute,
	}
	o.slack = start + time.Duration(rapid.IntRange(0, 4).Draw(t, "slack"))*6*time.Minute
	o.held = o.all.Up
	return o
}

// twin is the same decision problem, defined by a fleet's states and possible events in a step, and solved exhaustively: the minimum
// expected cost in steps on demand.
type twin struct {
	s     *solver
	known map[standing]float64
}

// standing is a job's state.
type standing struct {
	work, slack int
	up          bool
	phase       int
	fleet       string // "", "spot", "demand"
	age         int    // steps since the fleet was bought, as far as they matter
}

func (w *twin) cost(at standing) float64 {
	if at.work == 0 {
		return 0
	}
	if c, ok := w.known[at]; ok {
		return c
	}
	best := math.Inf(1)
	for _, c := range w.offers(at) {
		best = min(best, c)
	}
	w.known[at] = best
	return best
}

// offers returns the cost of each possible action.
func (w *twin) offers(at standing) map[string]float64 {
	out := map[string]float64{}
	buy := func(fleet string) float64 {
		bought := at
		bought.fleet, bought.age = fleet, 0
		return w.run(bought)
	}
	canWait, canDare := at.slack > w.s.start, at.slack >= 2*w.s.start
	waits := at
	waits.fleet, waits.age = "", 0
	switch at.fleet {
	case "spot":
		out["stay"] = w.run(at)
		return out
	case "demand":
		out["stay"] = w.run(at)
		if at.age < w.s.start {
			return out
		}
	case "":
		if at.slack >= w.s.start {
			out["demand"] = buy("demand")
		}
	}
	if canWait && !at.up {
		out["wait"] = w.after(waits, at.work, at.slack-1, 0)
	}
	if canDare && at.up {
		out["spot"] = buy("spot")
	}
	return out
}

// run makes a fleet run for a step.
func (w *twin) run(at standing) float64 {
	work, slack := at.work-1, at.slack
	if at.age < w.s.start {
		work, slack = at.work, at.slack-1
	}
	if slack < 0 {
		return math.Inf(1)
	}
	price := 1.0
	if at.fleet == "spot" {
		price = w.s.price
	}
	next := at
	next.age++
	if at.fleet == "demand" {
		next.age = min(next.age, w.s.start)
	} else {
		next.age = min(next.age, w.s.youngSteps)
	}
	refund := 0.0
	if at.fleet == "spot" && time.Duration(at.age+1)*w.s.step <= w.s.free {
		refund = float64(at.age+1) * w.s.price
	}
	return price + w.after(next, work, slack, refund)
}

// after returns the expected cost when the step ends, and the current spell has ended or not. Evicted spot machines return the refund.
func (w *twin) after(at standing, work, slack int, refund float64) float64 {
	at.work, at.slack = work, slack
	ends, grows := float64(w.s.down[at.phase]), float64(w.s.grow[at.phase])
	if at.up {
		ends = float64(w.s.up[at.phase])
	}
	over := at
	over.up, over.phase = !at.up, 0
	ended := 0.0
	if at.fleet == "spot" {
		over.fleet, over.age = "", 0
		rescued := over
		rescued.up = true
		ended = mix(float64(w.s.rescue), rescued, over, w.cost) - refund
	} else {
		ended = w.cost(over)
	}
	older := at
	older.phase = min(at.phase+1, market.SpellPhases-1)
	return ends*ended + (1-ends)*mix(grows, older, at, w.cost)
}

// mix weighs two costs, without computing one of weight zero.
func mix(share float64, a, b standing, cost func(standing) float64) float64 {
	switch share {
	case 0:
		return cost(b)
	case 1:
		return cost(a)
	}
	return share*cost(a) + (1-share)*cost(b)
}

// TestStrategyAgainstItsTwin: the strategy takes the action that exhaustive search finds cheapest.
func TestStrategyAgainstItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOutlook(t)
		got := solve(o)
		w := &twin{s: newSolver(o, got.step), known: map[standing]float64{}}
		for work := 1; work <= got.work; work++ {
			for slack := range got.slack + 1 {
				a := got.adviceAt(time.Duration(work)*got.step, time.Duration(slack)*got.step)
				for phase := range market.SpellPhases {
					for _, c := range []struct {
						name, this, that string
						set              uint8
						from             standing
					}{
						{"wait", "wait", "demand", a.wait, standing{work, slack, false, phase, "", 0}},
						{"take", "spot", "demand", a.take, standing{work, slack, true, phase, "", 0}},
						{"leave", "wait", "stay", a.leave, standing{work, slack, false, phase, "demand", w.s.start}},
						{"change", "spot", "stay", a.change, standing{work, slack, true, phase, "demand", w.s.start}},
					} {
						offers := w.offers(c.from)
						this, ok := offers[c.this]
						that, other := offers[c.that]
						if !ok || !other || math.Abs(this-that) < 1e-3*(1+that) || math.IsInf(min(this, that), 1) {
							continue // impossible, or equally good
						}
						if set := c.set>>phase&1 == 1; set != (this < that) {
							t.Fatalf("%+v: %s is %v, but it costs %g and %s %g", c.from, c.name, set, this, c.that, that)
						}
					}
				}
			}
		}
	})
}

// TestStrategyInvariants: properties that hold without any arithmetic.
func TestStrategyInvariants(t *testing.T) {
	flat := func(perHour float64) (r market.SpellRates) {
		for k := range r {
			r[k] = perHour
		}
		return r
	}
	o := outlook{all: market.Spells{Up: flat(0.1), Down: flat(4)}, held: flat(0.1), price: 0.3,
		start: 12 * time.Minute, work: 8 * time.Hour, slack: 8 * time.Hour}
	s := solve(o)
	if a := s.adviceAt(8*time.Hour, 4*time.Hour); a.wait != 1<<market.SpellPhases-1 || a.take != 1<<market.SpellPhases-1 {
		t.Errorf("short gaps and long spells: %+v; want to wait and to take", a)
	}
	o.all.Up, o.held, o.all.Down = flat(20), flat(20), flat(0.02)
	s = solve(o)
	if a := s.adviceAt(8*time.Hour, time.Hour); a.wait != 0 || a.take != 0 || a.change != 0 || a.leave != 0 {
		t.Errorf("long gaps and spells of three minutes: %+v; want on demand", a)
	}
	o.price = 1.2
	o.all.Up, o.held = flat(0.1), flat(0.1)
	if a := solve(o).adviceAt(4*time.Hour, 4*time.Hour); a.take != 0 || a.change != 0 {
		t.Errorf("dearer than on demand: %+v", a)
	}
}

func BenchmarkSolve(b *testing.B) {
	o := outlook{price: 0.3, start: 6 * time.Minute, work: 24 * time.Hour, slack: 12 * time.Hour}
	o.all, _ = market.LearnSpells([]*market.Availability{nil}, 1, start)
	o.held = o.all.Up
	for range b.N {
		solve(o)
	}
}
