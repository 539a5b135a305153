package sweep

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sim"
)

// restless returns a price that exceeds the bid for two hours of each day, and doubles from a day before the job's start.
func restless(hour int) int {
	price := 40 + hour%24*3
	if hour%24 >= 22 || hour%24 <= -2 {
		price = 500
	}
	if hour > -24 {
		price *= 2
	}
	return price
}

func chooser(t *testing.T, cfg sim.Config) *Chooser {
	t.Helper()
	cfg.Faults = nil
	c := NewChooser(cfg, nil, planner.Wish{})
	c.candidates = slices.DeleteFunc(c.candidates, func(k *candidate) bool {
		return !slices.Contains([]string{"on-demand", "checkpoint", "tierml", "cost-per-work"}, k.name)
	})
	return c
}

func decided(t *testing.T, c *Chooser, at time.Time) planner.Choice {
	t.Helper()
	choice, err := c.At(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	return choice
}

// TestAutoDoesNotKnowTheFuture: a decision at a time is the same whatever prices come later.
func TestAutoDoesNotKnowTheFuture(t *testing.T) {
	cfg, _ := pastJob(t, restless)
	at := cfg.Start.Add(-5 * 24 * time.Hour)
	known, _ := pastJob(t, restless)
	other := known.Pools[0].History.Until(at)
	points := slices.Clone(other.Points(time.Time{}, at))
	for h := range 24 * 6 {
		points = append(points, market.PricePoint{At: at.Add(time.Duration(h+1) * time.Minute * 50), Price: market.USD(1+h%7*200) * market.Dollar / 1000})
	}
	known.Pools[0].History = market.NewHistory(points)
	a, b := decided(t, chooser(t, cfg), at), decided(t, chooser(t, known), at)
	if diff := cmp.Diff(a, b); diff != "" || len(a.Candidates) < 4 {
		t.Errorf("(-as it was, +another future)\n%s%+v", diff, a)
	}
	if now := decided(t, chooser(t, cfg), cfg.Start); cmp.Equal(a.Candidates, now.Candidates) {
		t.Errorf("five days later the same is known: %+v", now)
	}
}

// TestAutoIsThePolicyItChooses: at each start the row of auto equals that of the chosen policy.
func TestAutoIsThePolicyItChooses(t *testing.T) {
	cfg, _ := pastJob(t, restless)
	cfg.Faults = nil
	rows, err := Run(t.Context(), Experiment{Job: cfg, Policies: append(Candidates(false), Auto), Starts: Starts{Count: 3, Seed: 1}}, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	c := NewChooser(length(0).scale(cfg), nil, planner.Wish{})
	seen := 0
	for _, auto := range rows {
		if auto.Policy != Auto {
			continue
		}
		choice := decided(t, c, auto.Start)
		for _, r := range rows {
			if r.Policy == choice.Policy && r.Start.Equal(auto.Start) {
				if seen++; !cmp.Equal(r.Result, auto.Result) {
					t.Errorf("%s: auto %+v, %s %+v", r.Start, auto.Result, r.Policy, r.Result)
				}
			}
		}
	}
	if seen != 3 {
		t.Errorf("%d of 3 starts", seen)
	}
}

// TestAutoKeepsTrials: another chooser for the same job simulates nothing, one for another job or other prices does.
func TestAutoKeepsTrials(t *testing.T) {
	folder := t.TempDir()
	simulated := func(change func(*sim.Config)) (n int, choice planner.Choice) {
		cfg, _ := pastJob(t, restless)
		change(&cfg)
		c := chooser(t, cfg)
		c.Keep(folder, "test")
		c.Progress = func(_, total int) { n = total }
		return n, decided(t, c, cfg.Start)
	}
	first, a := simulated(func(*sim.Config) {})
	again, b := simulated(func(*sim.Config) {})
	if first == 0 || again != 0 || !cmp.Equal(a, b) {
		t.Errorf("%d trials, then %d\n%s", first, again, cmp.Diff(a, b))
	}
	if n, _ := simulated(func(cfg *sim.Config) { cfg.Job.Work *= 2 }); n == 0 {
		t.Error("another amount of work: nothing was simulated")
	}
	latest, _ := simulated(func(cfg *sim.Config) { // the price of a single hour, which some trials have met
		points := slices.Clone(cfg.Pools[0].History.Points(time.Time{}, cfg.Start.Add(24*time.Hour)))
		points[len(points)-24-80].Price++
		cfg.Pools[0].History = market.NewHistory(points)
	})
	if latest == 0 || latest >= first {
		t.Errorf("another price 80 hours ago: %d of %d trials", latest, first)
	}
}

// Without enough history the default is used, and the plan says so.
func TestAutoWithoutHistory(t *testing.T) {
	cfg, _ := pastJob(t, restless)
	choice := decided(t, chooser(t, cfg), cfg.Start.Add(-29*24*time.Hour))
	if choice.Policy != "cost-per-work" || len(choice.Candidates) > 0 || choice.Why == "" {
		t.Errorf("%+v", choice)
	}
}

// A run that is given up continues at its own pace and prices: the rest is not bought on demand at once.
func TestGivenUpTrialsKeepTheirPace(t *testing.T) {
	cfg, _ := pastJob(t, restless)
	done := sim.Result{Outcome: "failed", Cost: market.Dollar, Runtime: 10 * time.Hour, Clocks: int64(cfg.Job.Clocks) / 4}
	if got, want := trialOf(&cfg, done), (planner.Trial{Cost: 4, Hours: 40, GivenUp: true}); got != want {
		t.Errorf("a quarter done for $1 in 10 h: %+v, want %+v", got, want)
	}
	done.Outcome = "finished"
	if got, want := trialOf(&cfg, done), (planner.Trial{Cost: 1, Hours: 10}); got != want {
		t.Errorf("finished: %+v, want %+v", got, want)
	}
	done.Outcome, done.Clocks = "failed", 0
	if got := trialOf(&cfg, done); math.Abs(got.Cost-1-dollars(OnDemandCost(&cfg))) > 1e-9 || got.Hours < 900 {
		t.Errorf("nothing done: %+v, on demand $%.2f", got, dollars(OnDemandCost(&cfg)))
	}
}
