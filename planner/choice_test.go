package planner

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/market"
)

// trialsOf makes trials of a candidate: costs and hours by start.
func trialsOf(policy string, starts int, run func(start int) Trial) Trials {
	t := Trials{Policy: policy}
	for i := range starts {
		t.Runs = append(t.Runs, run(i))
	}
	return t
}

func evenly(starts int) (out []Sample) {
	for i := range starts {
		out = append(out, Sample{Start: now.Add(-time.Duration(i) * 6 * time.Hour), Weight: 1})
	}
	return out
}

func same(cost, hours float64) func(int) Trial {
	return func(int) Trial { return Trial{Cost: cost, Hours: hours} }
}

func TestChoose(t *testing.T) {
	odd := func(cost, more float64) func(int) Trial { // dear on one day in ten
		return func(i int) Trial {
			if i/4%10 == 0 {
				return Trial{Cost: cost + more, Hours: 8}
			}
			return Trial{Cost: cost, Hours: 8}
		}
	}
	hour := func(dollars float64) Wish { return Wish{ValueOfTime: market.USD(dollars * float64(market.Dollar))} }
	for name, c := range map[string]struct {
		wish   Wish
		starts int
		others []Trials
		want   string
	}{
		"the cheapest":                      {Wish{}, 40, []Trials{trialsOf("a", 40, same(9, 8)), trialsOf("b", 40, same(8, 8))}, "b"},
		"the default, if nothing is better": {Wish{}, 40, []Trials{trialsOf("a", 40, same(10.1, 1))}, "default"},
		"the default without a past":        {Wish{}, 7, []Trials{trialsOf("a", 7, same(1, 1))}, "default"},
		"cheaper, though not on each day":   {Wish{}, 40, []Trials{trialsOf("a", 40, odd(9.5, 4))}, "a"},
		"dearer, though not on each day":    {Wish{}, 40, []Trials{trialsOf("a", 40, odd(9.5, 6))}, "default"},
		"an hour that is worth less":        {hour(0.4), 40, []Trials{trialsOf("a", 40, same(11, 6))}, "default"},
		"an hour that is worth more":        {hour(0.6), 40, []Trials{trialsOf("a", 40, same(11, 6))}, "a"},
		"too late":                          {Wish{Within: 9 * time.Hour}, 40, []Trials{trialsOf("a", 40, same(1, 10))}, "default"},
		"the default is too late":           {Wish{Within: 7 * time.Hour}, 40, []Trials{trialsOf("a", 40, same(20, 6))}, "a"},
		"too dear in one case of ten":       {Wish{Budget: 11 * market.Dollar}, 40, []Trials{trialsOf("a", 40, odd(8, 4))}, "default"},
		"none in time, one nearly":          {Wish{Within: 5 * time.Hour}, 40, []Trials{trialsOf("a", 40, same(20, 6))}, "a"},
		"nearly as late, at half the cost":  {Wish{Within: 4 * time.Hour}, 40, []Trials{trialsOf("a", 40, same(5, 8.3))}, "a"},
		"later, at half the cost":           {Wish{Within: 4 * time.Hour}, 40, []Trials{trialsOf("a", 40, same(5, 8.5))}, "default"},
		"none within the budget":            {Wish{Budget: 5 * market.Dollar}, 40, []Trials{trialsOf("a", 40, same(9, 20))}, "a"},
		"it cannot run the job":             {Wish{}, 40, []Trials{{Policy: "a", Refused: "no reliable machine"}}, "default"},
	} {
		all := append([]Trials{trialsOf("default", c.starts, same(10, 8))}, c.others...)
		got := Choose(c.wish, "default", evenly(c.starts), all)
		if got.Policy != c.want || got.Why == "" {
			t.Errorf("%s: %s: %s; want %s", name, got.Policy, got.Why, c.want)
		}
	}
}

// Weights count: old results tell less.
func TestChooseByTheLatest(t *testing.T) {
	samples := evenly(40)
	for i := range samples {
		samples[i].Weight = math.Exp2(-float64(i) / 4)
	}
	lately := trialsOf("a", 40, func(i int) Trial { return Trial{Cost: 8 + 4*float64(i/20), Hours: 8} })
	if c := Choose(Wish{}, "default", samples, []Trials{trialsOf("default", 40, same(10, 8)), lately}); c.Policy != "a" || c.Candidates[0].Cost > 8.2 {
		t.Errorf("%+v", c)
	}
	if c := Choose(Wish{}, "default", evenly(40), []Trials{trialsOf("default", 40, same(10, 8)), lately}); c.Policy != "default" {
		t.Errorf("with equal weights: %+v", c)
	}
}

func TestRuledOut(t *testing.T) {
	all := []Trials{trialsOf("default", 12, same(30, 8)), trialsOf("a", 12, same(10, 8)), trialsOf("b", 12, same(10.1, 8)),
		trialsOf("c", 12, func(i int) Trial { return Trial{Cost: 9.8 + 0.5*float64((i+3)/4%2), Hours: 8} }), trialsOf("d", 12, func(i int) Trial { return Trial{Cost: 10 + float64(20*(i/11)), Hours: 8} })}
	out := RuledOut(Wish{}, evenly(12), all)
	if out["default"] != "200.0 ± 0.0 % dearer in 12 starts than a" || out["b"] == "" || len(out) != 2 {
		t.Errorf("%v: the default and b are surely dearer", out)
	}
	if out := RuledOut(Wish{Within: 7 * time.Hour}, evenly(12), append(all, trialsOf("in time", 12, same(40, 6)))); out["in time"] != "" {
		t.Errorf("%v: the only one that keeps the deadline is dropped", out)
	}
	if out := RuledOut(Wish{Within: 5 * time.Hour}, evenly(12), append(all, trialsOf("nearly in time", 12, same(40, 6)))); len(out) > 0 {
		t.Errorf("%v: where none keeps the deadline the dearest may be the next best", out)
	}
}

// TestDroppedEarly: a dropped candidate is not chosen, however cheap its few starts were, and does not hide what the others showed later.
func TestDroppedEarly(t *testing.T) {
	later := func(cost float64) func(int) Trial { // dearer from the 20th start on
		return func(i int) Trial { return Trial{Cost: 10 + cost*float64(i/20), Hours: 8} }
	}
	early := trialsOf("default", 20, same(11, 8))
	early.Dropped = "it was dear"
	c := Choose(Wish{}, "default", evenly(40), []Trials{early, trialsOf("a", 40, later(3)), trialsOf("b", 40, later(2))})
	if c.Policy != "b" || c.Candidates[0].Policy != "b" || c.Candidates[0].Starts != 40 {
		t.Errorf("%+v", c)
	}
	// b costs 11 on average over all its starts, and 10 over the 20 that the default has.
	if last := c.Candidates[2]; last.Policy != "default" || !last.Dropped || last.Why != "it was dear" || math.Abs(last.Against-0.1) > 1e-9 {
		t.Errorf("%+v; want it 10 %% dearer than the chosen one in the starts of both", last)
	}
	var b terminal.Text
	(&Plan{Choice: &c}).writeChoice(&b, Style{})
	_, table, _ := strings.Cut(b.String(), "AGAINST ")
	want := `B
  ✓  b           $11.00  $12.00    8.0  8.0
     a           $11.50  $13.00    8.0  8.0  +4.5 % ± 1.4
     default                                 +10.0 % ± 0.0, dropped after 20 starts
      it was dear

`
	if table != want {
		t.Errorf("%s\nwant\n%s", table, want)
	}
}

// No candidate is dearer than the chosen one, in their common starts and on average, unless it misses a bound.
func TestChosenIsTheYardstick(t *testing.T) {
	c := Choose(Wish{}, "default", evenly(40), []Trials{trialsOf("default", 40, same(10, 8)), trialsOf("a", 40, same(8, 8)), trialsOf("b", 40, same(9, 8))})
	for i, j := range c.Candidates {
		if want := j.Cost/8 - 1; math.Abs(j.Against-want) > 1e-9 || i == 0 && j.Policy != "a" {
			t.Errorf("%+v: against %v", j, want)
		}
	}
}
