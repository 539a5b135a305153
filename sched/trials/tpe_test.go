package trials

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

func rangeOf(t *testing.T, name, text string) Range {
	t.Helper()
	r, err := ParseRange(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Bergstra et al. 2011, section 4.2, on paper: the deviations are the greater distances to neighbours, the ends included, and the density is
// that of the prior and of each point with equal weights; each integrates to 1. The weights of N values are 1 + C_i.
func TestPaperParzenEstimator(t *testing.T) {
	of := func(name string, values ...string) (all []Result) {
		for _, v := range values {
			all = append(all, Result{Settings: map[string]string{name: v}})
		}
		return all
	}
	r := rangeOf(t, "x", "0..1.0")
	m := r.density(of("x", "0.9", "0.2", "0.3")).(mixture)
	for i, want := range []float64{.25, .6, .6} { // .2 is the greater distance of .2, and less than a quarter of the range
		if math.Abs(m.sigmas[i]-want) > 1e-12 {
			t.Errorf("the deviation at %g is %g, not %g", m.points[i], m.sigmas[i], want)
		}
	}
	one := r.density(of("x", "0.5")) // deviation .5: one of it at each side
	if got, want := one.at("0.5"), (1+1/(.5*math.Sqrt(2*math.Pi)*math.Erf(1/math.Sqrt2)))/2; math.Abs(got-want) > 1e-12 {
		t.Errorf("density %g, not %g", got, want)
	}
	for _, text := range []string{"0..1.0", "log 1e-3..10", "1..64", "log 1..64"} {
		r := rangeOf(t, "x", text)
		m := r.density(of("x", "1", "1", "0.5", "9", "10")).(mixture)
		low, high := r.scale()
		const steps = 20_000
		sum := 0.
		for i := range steps { // between whole numbers, too
			smooth := r
			smooth.Whole = false
			m.of = &smooth
			x := low + (float64(i)+.5)*(high-low)/steps
			if r.Log {
				x = math.Exp(x)
			}
			sum += m.at(strconv.FormatFloat(x, 'g', -1, 64)) * (high - low) / steps
		}
		if math.Abs(sum-1) > 1e-3 {
			t.Errorf("%s: the density integrates to %g", text, sum)
		}
	}
	w := (&Range{Name: "c", Values: []string{"a", "b", "c"}}).density(of("c", "b", "b", "c"))
	for value, want := range map[string]float64{"a": 1. / 6, "b": 3. / 6, "c": 2. / 6} {
		if got := w.at(value); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s has %g, not %g", value, got, want)
		}
	}
}

// Section 4.1: l is built from the losses below their quantile gamma, and among the settings drawn from l the one with the greatest l/g is
// chosen, so that the expected improvement, proportional to 1/(gamma + (1-gamma) g/l), is greatest among the candidates.
func TestPaperExpectedImprovement(t *testing.T) {
	var results []Result
	for i, loss := range []float64{5, math.NaN(), 1, 4, 3, 2, 6, 7} {
		results = append(results, Result{map[string]string{"x": fmt.Sprintf("0.%d", i+1)}, loss})
	}
	good, bad := split(results)
	if len(good) != 2 || good[0].Loss != 1 || good[1].Loss != 2 || len(bad) != 6 || !math.IsNaN(bad[5].Loss) {
		t.Fatalf("%v | %v", good, bad)
	}
	if good, bad := split([]Result{{Loss: math.NaN()}, {Loss: math.NaN()}}); len(good) != 0 || len(bad) != 2 {
		t.Errorf("of losses that are no numbers %v are good", good)
	}
	r := rangeOf(t, "x", "0..1.0")
	s := Sweep{Samples: 32, Seed: 3, TPE: true, Ranges: []Range{r}}
	l, g := r.density(good), r.density(bad)
	improvement := func(x string) float64 { return 1 / (gamma + (1-gamma)*g.at(x)/l.at(x)) }
	for i := range 50 {
		got, chance := s.Next(i, results)["x"], rand.New(rand.NewPCG(s.Seed, uint64(i)))
		for range candidates {
			if x := l.draw(chance); improvement(x) > improvement(got)+1e-12 {
				t.Errorf("trial %d is %s with %g, and %s was drawn with %g", i, got, improvement(got), x, improvement(x))
			}
		}
	}
}

// problem is a function with minimum 0.
type problem struct {
	name   string
	ranges []Range
	loss   func(map[string]string) float64
}

// problems returns a bowl over decades, a curved valley of two settings, an integer with a list, and one where two thirds of the range
// diverge.
func problems(t *testing.T) []problem {
	t.Helper()
	number := func(text string) float64 { v, _ := strconv.ParseFloat(text, 64); return v }
	square := func(x float64) float64 { return x * x }
	return []problem{
		{"bowl", []Range{rangeOf(t, "rate", "log 1e-5..10")}, func(m map[string]string) float64 { return square(math.Log10(number(m["rate"])) + 1.7) }},
		{"valley", []Range{rangeOf(t, "x", "-5.0..10"), rangeOf(t, "y", "0.0..15")}, func(m map[string]string) float64 { // Branin's
			x, y := number(m["x"]), number(m["y"])
			return square(y-5.1/(4*math.Pi*math.Pi)*x*x+5/math.Pi*x-6) + 10*(1-1/(8*math.Pi))*math.Cos(x) + 10 - .397887
		}},
		{"mixed", []Range{{Name: "kind", Values: []string{"a", "b", "c", "d"}}, rangeOf(t, "rate", "log 1e-4..1"), rangeOf(t, "width", "1..200")},
			func(m map[string]string) float64 {
				miss := map[string]float64{"a": 1, "b": .7, "c": 0, "d": .4}[m["kind"]]
				return miss + square(math.Log10(number(m["rate"]))+2.5) + square((number(m["width"])-150)/60)
			}},
		{"diverges", []Range{rangeOf(t, "rate", "log 1e-6..1e3"), rangeOf(t, "decay", "log 1e-6..1")}, func(m map[string]string) float64 {
			rate := math.Log10(number(m["rate"]))
			if rate > -2.9 {
				return math.NaN()
			}
			return square(rate+3) + square(math.Log10(number(m["decay"]))+2)
		}},
	}
}

// best returns the lowest loss of a sweep's trials. With TPE the maximum number run at a time, or one.
func (p *problem) best(s Sweep, together bool) float64 {
	s.Ranges = p.ranges
	least := math.Inf(1)
	var all []Result
	for i, settings := range s.Trials() {
		if s.TPE && i >= s.First() {
			known := len(all)
			for together && known > 0 && s.Ready(i, known-1) {
				known-- // as if all others were still running
			}
			settings = s.Next(i, all[:known])
		}
		all = append(all, Result{settings, p.loss(settings)})
		if loss := all[i].Loss; loss < least {
			least = loss
		}
	}
	return least
}

// With the maximum number of trials at a time, TPE's best of 64 is on average over 40 seeds better than the best of 64 random draws.
func TestTPEBeatsRandom(t *testing.T) {
	for _, p := range problems(t) {
		var ours, random, less sample
		for seed := range uint64(40) {
			a, b := p.best(Sweep{Samples: 64, Seed: seed, TPE: true}, true), p.best(Sweep{Samples: 64, Seed: seed}, true)
			ours, random, less = append(ours, a), append(random, b), append(less, b-a)
		}
		t.Logf("%s: the best loss is %s by TPE and %s at random; %s less", p.name, ours, random, less)
		if mean, half := less.mean(); mean <= half {
			t.Errorf("%s: TPE is not better", p.name)
		}
	}
}

// Trial i waits for the results of all first trials, and for all but First-1 of the earlier ones.
func TestReady(t *testing.T) {
	s := Sweep{Samples: 12, TPE: true}
	for i, want := range []int{0, 0, 0, 3, 3, 3, 4, 5, 6, 7, 8, 9} {
		if !s.Ready(i, want) || want > 0 && s.Ready(i, want-1) {
			t.Errorf("trial %d does not wait for %d results", i, want)
		}
	}
	if one := (Sweep{Samples: 2, TPE: true}); one.First() != 1 || !one.Ready(1, 1) {
		t.Error("two trials")
	}
}

// A result is the loss at the first rung, even of a trial that failed or was stopped later, and without rungs the loss at the end. A trial
// that failed before is the worst; one that was stopped before has none, and is not waited for.
func TestDraw(t *testing.T) {
	s := Sweep{Samples: 16, Seed: 1, TPE: true, Ranges: []Range{rangeOf(t, "x", "0..1.0")}, Rungs: []Rung{{At: 5, Keep: 1}}}
	at := func(x string) map[string]string { return map[string]string{"x": x} }
	before := []Trial{
		{Settings: at("0.1"), Losses: []float64{3, 1}, Ended: true, Failed: true},
		{Settings: at("0.2"), Losses: []float64{2}, Ended: true, Stopped: true},
		{Settings: at("0.3"), Ended: true, Failed: true},
		{Settings: at("0.4"), Ended: true, Stopped: true},
		{Settings: at("0.5"), Ended: true, Last: 1}, // it has not reached the rung
		{Settings: at("0.6")},
	}
	want := s.Next(len(before), []Result{{at("0.1"), 3}, {at("0.2"), 2}, {at("0.3"), math.NaN()}})
	if got, ready := s.Draw(before); !ready || got["x"] != want["x"] {
		t.Errorf("%v, not %v: %t", got, want, ready)
	}
	s.Rungs = nil
	want = s.Next(len(before), []Result{{at("0.3"), math.NaN()}, {at("0.5"), 1}})
	for i := range before {
		before[i].Losses = nil
	}
	before[0].Failed, before[0].Stopped = false, true
	if got, ready := s.Draw(before); !ready || got["x"] != want["x"] {
		t.Errorf("without rungs %v, not %v: %t", got, want, ready)
	}
	if _, ready := s.Draw(append(before[:3], Trial{Settings: at("0.7")})); ready {
		t.Error("the fifth is drawn after three results of the first four")
	}
}
