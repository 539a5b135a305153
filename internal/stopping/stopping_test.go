package stopping

import (
	"math"
	"testing"
	"time"
)

func at(x float64) *float64 { return &x }

func TestMeasured(t *testing.T) {
	for _, c := range []struct {
		name    string
		rules   Rules
		figures []float64 // of clocks 10, 20, ...
		clock   int64     // at which it stops; 0: never
		why     string
	}{
		{"no rule", Rules{}, []float64{1, 1, 1}, 0, ""},
		{"loss", Rules{Loss: at(0.5)}, []float64{1, 0.6, 0.5, 0.4}, 30, "RMSE 0.5 at clock 30 is at or below 0.5"},
		{"loss below zero", Rules{Loss: at(-2)}, []float64{1, -1, -3}, 30, "RMSE -3 at clock 30 is at or below -2"},
		{"no number", Rules{Loss: at(0.5), MinImprovement: 0.1}, []float64{1, math.NaN(), 0.8, math.NaN()}, 0, ""},
		{"improvement", Rules{MinImprovement: 0.1}, []float64{1, 0.8, 0.75, 0.6}, 30,
			"RMSE 0.75 at clock 30 is not 10% below the 0.8 of clock 20"},
		{"worse", Rules{MinImprovement: 0.01}, []float64{1, 1.5}, 20, "RMSE 1.5 at clock 20 is not 1% below the 1 of clock 10"},
		{"patience", Rules{MinImprovement: 0.1, Patience: 20}, []float64{1, 0.95, 0.92, 0.91, 0.5}, 40,
			"RMSE 0.91 at clock 40 is not 10% below the 1 of clock 10"},
		{"small steps add up", Rules{MinImprovement: 0.1, Patience: 20}, []float64{1, 0.95, 0.89, 0.85, 0.8, 0.75}, 0, ""},
		{"negative", Rules{MinImprovement: 0.1}, []float64{-1, -1.2, -1.25}, 30,
			"RMSE -1.25 at clock 30 is not 10% below the -1.2 of clock 20"},
	} {
		var w Watch
		var clock int64
		var why string
		for i, figure := range c.figures {
			if why = w.Measured(c.rules, int64(10*(i+1)), "RMSE", figure); why != "" {
				clock = int64(10 * (i + 1))
				break
			}
		}
		if clock != c.clock || why != c.why {
			t.Errorf("%s: stopped at %d, %q; want %d, %q", c.name, clock, why, c.clock, c.why)
		}
	}
}

func TestElapsed(t *testing.T) {
	if why := (Rules{}).Elapsed(time.Hour); why != "" {
		t.Errorf("without a rule: %q", why)
	}
	r := Rules{Time: time.Minute}
	if why := r.Elapsed(time.Minute - 1); why != "" {
		t.Errorf("too early: %q", why)
	}
	if why := r.Elapsed(time.Minute); why != "the training time of 1m0s is over" {
		t.Errorf("too late: %q", why)
	}
	if (Rules{}).Any() || !r.Any() || !(Rules{Loss: at(0)}).Any() {
		t.Error("Any is wrong")
	}
}

// A training that ends while its score still falls says so; one that has converged, or got worse, does not.
func TestTrend(t *testing.T) {
	for name, c := range map[string]struct {
		figures []float64 // of clocks 10, 20, ...
		more    bool
		share   float64
	}{
		"falls":       {[]float64{1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3}, true, 0.4},
		"rests":       {[]float64{1, 0.5, 0.4, 0.4, 0.4, 0.4, 0.4, 0.3999}, false, 0.00025},
		"worse":       {[]float64{1, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8}, false, 0},
		"jumps":       {[]float64{1, 0.5, 0.3, 0.4, 0.5, 0.6, 0.35, 0.4}, false, 0},
		"few":         {[]float64{1, 0.5, 0.2}, false, 0},
		"nothing":     {nil, false, 0},
		"no number":   {[]float64{1, 0.5, math.NaN(), 0.4, 0.4, 0.4}, false, 0},
		"likelihood":  {[]float64{-1, -2, -3, -4}, true, 1. / 3},
		"from naught": {[]float64{0, 0, 0, 0}, false, 0},
	} {
		var trend Trend
		for i, figure := range c.figures {
			trend.Measured(int64(10*(i+1)), figure)
		}
		if share, more := trend.Gained(); more != c.more || math.Abs(share-c.share) > 1e-9 {
			t.Errorf("%s: %v, %v; want %v, %v", name, share, more, c.share, c.more)
		}
	}
}
