package planner

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/market"
)

// outcomes returns outcomes of starts four hours apart, the last a day before now.
func outcomes(starts int, run func(i int) Run) Outcomes {
	o := Outcomes{Starts: starts, Start: now, Lag: 20 * time.Hour, Level: Level{1, 1}}
	for i := range starts {
		r := run(i)
		r.Start = now.Add(-24*time.Hour - 4*time.Hour*time.Duration(starts-1-i))
		if r.Level == (Level{}) {
			r.Level = Level{1, 1}
		}
		o.Runs = append(o.Runs, r)
	}
	return o
}

func TestForecastNeedsOutcomes(t *testing.T) {
	for _, n := range []int{0, 11} {
		f := outcomes(n, func(int) Run { return Run{Cost: 1, Time: 1, Finished: true} }).Forecast(time.Hour)
		if f.Cost.Known || f.Time.Known || f.Basis == "" {
			t.Errorf("%d starts: %+v", n, f)
		}
	}
}

// Runs from now on are no past: each has the same weight, whatever their number, and there is no record.
func TestForecastOfDraws(t *testing.T) {
	o := Outcomes{Now: true, Start: now, Lag: 20 * time.Hour, Level: Level{1, 2}}
	for i := range 100 {
		o.Runs = append(o.Runs, Run{Start: now, Level: o.Level, Cost: market.USD(100 + i), Time: time.Duration(200 + i), Finished: true})
	}
	f := o.Forecast(time.Hour)
	if f.Cost != (Range[market.USD]{Known: true, Low: 104, Middle: 150, High: 194}) || f.Time.Middle != 250 || f.CostRecord.Plans != 0 ||
		!strings.HasPrefix(f.Basis, "100 draws of evictions at the prices of ") {
		t.Errorf("%+v", f)
	}
}

func TestForecastOfUnfinishedRuns(t *testing.T) {
	few := outcomes(60, func(i int) Run {
		return Run{Cost: market.USD(100 + i), Time: time.Duration(100 + i), Finished: i%4 > 0}
	}).Forecast(time.Hour)
	if !few.Cost.Known || !few.Cost.HighOpen || few.Cost.High != 159 || few.Cost.Low > few.Cost.Middle || !strings.HasSuffix(few.Basis, "; 15 had not finished by now") {
		t.Errorf("%+v", few)
	}
	if many := outcomes(60, func(i int) Run { return Run{Cost: 1, Time: 1, Finished: i%4 == 0} }).Forecast(time.Hour); many.Cost.Known {
		t.Errorf("%+v", many)
	}
}

// TestForecastFollowsPrices: if costs followed the price of the day, so does the forecast; if not, it stays.
func TestForecastFollowsPrices(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	prices := make([]float64, 169)
	for i := range prices {
		prices[i] = 1 + random.Float64()
	}
	with := outcomes(169, func(i int) Run {
		return Run{Cost: market.USD(prices[i] * float64(market.Dollar)), Time: time.Hour, Finished: true, Level: Level{prices[i], 1.5}}
	})
	without := outcomes(169, func(i int) Run {
		return Run{Cost: market.Dollar + market.USD(i%5), Time: time.Hour, Finished: true, Level: Level{prices[i], 1.5}}
	})
	with.Level, without.Level = Level{3, 1.5}, Level{3, 1.5}
	same := outcomes(169, func(i int) Run {
		return Run{Cost: market.Dollar, Time: time.Hour, Finished: true, Level: Level{prices[i], 1 + float64(i)/169}}
	})
	same.Level = Level{3, 3}
	if f := same.Forecast(time.Hour); f.Cost.Low != market.Dollar || f.Cost.Middle != market.Dollar || f.Cost.High != market.Dollar {
		t.Errorf("all cost a dollar: %+v", f.Cost)
	}
	if f := with.Forecast(time.Hour); f.Cost.Low < 3*market.Dollar-9 || f.Cost.High > 3*market.Dollar+9 || f.Time.Middle != time.Hour {
		t.Errorf("%+v", f)
	}
	if f := without.Forecast(time.Hour); f.Cost.Middle > market.Dollar+4 || f.Cost.High > market.Dollar+4 {
		t.Errorf("%+v", f)
	}
}

// TestForecastHoldsNineTenths: in a market that drifts from day to day, nine tenths of future results are in the range, and the record says
// so.
func TestForecastHoldsNineTenths(t *testing.T) {
	var inside, plans int
	var middle, outcome float64
	for seed := range uint64(100) {
		random, level := rand.New(rand.NewPCG(seed, 2)), 0.0
		all := outcomes(170, func(int) Run {
			level = .98*level + .05*random.NormFloat64()
			cost := market.USD(float64(market.Dollar) * math.Exp(level+.1*random.NormFloat64()))
			return Run{Cost: cost, Time: time.Hour, Finished: true}
		})
		last := all.Runs[169]
		all.Runs, all.Start = all.Runs[:165], last.Start // what is known 20 hours later
		f := all.Forecast(4 * time.Hour)
		if plans++; f.Cost.Low <= last.Cost && last.Cost <= f.Cost.High {
			inside++
		}
		if share := float64(f.CostRecord.Inside) / float64(f.CostRecord.Plans); f.CostRecord.Plans < 80 || share < .7 {
			t.Errorf("seed %d: record %+v", seed, f.CostRecord)
		}
		middle, outcome = middle+float64(f.Cost.Middle), outcome+float64(last.Cost)
	}
	if share := float64(inside) / float64(plans); share < .86 || share > .98 {
		t.Errorf("%.3f lie inside", share)
	}
	if math.Abs(middle/outcome-1) > .1 {
		t.Errorf("the middles are %.3f of the outcomes", middle/outcome)
	}
}

// TestRangeWithEqualTimes: if most runs take equally long and none is quicker, the range is no wider than nine tenths require, and ends at
// the mean if almost all do.
func TestRangeWithEqualTimes(t *testing.T) {
	inside, forecasts := 0.0, 40
	for seed := range forecasts {
		random := rand.New(rand.NewPCG(uint64(seed), 2))
		f := outcomes(169, func(int) Run {
			late := max(0, random.Float64()-.6) / .4 // in four of ten
			return Run{Cost: 1, Time: time.Hour + time.Duration(late*float64(time.Hour)), Finished: true}
		}).Forecast(time.Hour)
		if f.Time.Low != time.Hour {
			t.Fatalf("from %s", f.Time.Low)
		}
		inside += .6 + .4*min(1, f.Time.High.Hours()-1)
	}
	if share := inside / float64(forecasts); share < .88 || share > .94 {
		t.Errorf("%.3f inside", share)
	}
	f := outcomes(169, func(i int) Run {
		return Run{Cost: 1, Time: time.Hour + time.Duration(i%20/19)*time.Hour, Finished: true}
	}).Forecast(time.Hour)
	if f.Time.Low != time.Hour || f.Time.High > f.Time.Middle {
		t.Errorf("%+v", f.Time)
	}
}

// On a narrow terminal further lines of one label are indented below it.
func TestNarrowLabels(t *testing.T) {
	var b terminal.Text
	s := Style{Width: 40}
	s.labelled(&b, 18, "Assumed", "name: demo")
	s.labelled(&b, 18, "", "cloud: local, at the recorded prices")
	if want := "  Assumed: name: demo\n    cloud: local, at the recorded prices\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
