package sweep

import (
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sim"
)

// constantJob is 8 hours of work at constant prices that have been known for a while.
func constantJob(t *testing.T, rules, provider string, known time.Duration) (cfg sim.Config, now time.Time) {
	t.Helper()
	book, err := market.Rules(rules)
	if err != nil {
		t.Fatal(err)
	}
	now = time.Date(2025, 3, 4, 14, 10, 0, 0, time.UTC)
	var spot []bidding.Candidate
	for i, name := range []string{"small.xlarge", "large.2xlarge"} {
		kind := market.InstanceType{Name: name, VCPU: 4 << i, MemoryMiB: 16384 << i, OnDemand: market.Dollar * 2 / 10 << i}
		var points []market.PricePoint
		for at := now.Add(-known); !at.After(now); at = at.Add(time.Hour) {
			points = append(points, market.PricePoint{At: at, Price: kind.OnDemand * market.USD(31+i) / 100})
		}
		pool := market.Pool{Provider: provider, Region: "here", Zone: "here-a", Type: name, Class: market.Spot}
		spot = append(spot, bidding.Candidate{Pool: pool, Type: kind, History: market.NewHistory(points)})
	}
	cfg = cellJob(book, spot...)
	cfg.Start, cfg.Checkpoints.Every = now, 10*time.Minute
	cfg.Want.VCPU, cfg.Equivalent.Count, cfg.Job.Splits = 16, 4, 32
	if err := (Evictions{}).Apply(&cfg); err != nil {
		t.Fatal(err)
	}
	return OnEC2(cfg, 8*time.Hour), now
}

// At constant prices, the choice and forecast are the same with any length of history, even a single price, and within 1 % of the best
// policy in many other draws.
func TestEqualPricesGiveEqualChoices(t *testing.T) {
	for _, on := range []struct{ rules, provider string }{{"gce-spot", "gce"}, {"ec2-now", "ec2"}} {
		t.Run(on.rules, func(t *testing.T) {
			var first planner.Forecast
			chosen := ""
			lengths := []int{0, 1, 2, 24, 5 * 24, 8 * 24, 15 * 24}
			if testing.Short() {
				lengths = []int{0, 15 * 24}
			}
			for _, hours := range lengths {
				cfg, now := constantJob(t, on.rules, on.provider, time.Duration(hours)*time.Hour)
				c := NewChooser(cfg, nil, planner.Wish{})
				choice := decided(t, c, now)
				f, err := c.Estimate(planner.Input{Now: now})
				if err != nil {
					t.Fatal(err)
				}
				if !f.Cost.Known || !f.Time.Known {
					t.Fatalf("%d hours of prices: %+v", hours, f)
				}
				if chosen == "" {
					chosen, first = choice.Policy, f
				}
				if choice.Policy != chosen || f.Cost != first.Cost || f.Time != first.Time {
					t.Errorf("%d hours of prices: %s, %+v; one price: %s, %+v", hours, choice.Policy, f.Cost, chosen, first.Cost)
				}
			}
			best, means := bestByOtherDraws(t, on.rules, on.provider)
			if means[chosen] > 1.01*means[best] {
				t.Errorf("%s costs $%.3f, %s $%.3f", chosen, means[chosen], best, means[best])
			}
			if middle := dollars(first.Cost.Middle); middle < .99*means[chosen] || middle > 1.01*means[chosen] {
				t.Errorf("the forecast is $%.3f, the mean of other draws $%.3f", middle, means[chosen])
			}
		})
	}
}

// bestByOtherDraws returns the mean cost of each policy in draws that were not used for choosing.
func bestByOtherDraws(t *testing.T, rules, provider string) (best string, means map[string]float64) {
	t.Helper()
	const draws = 600
	cfg, now := constantJob(t, rules, provider, 10*24*time.Hour)
	c := NewChooser(cfg, nil, planner.Wish{})
	var samples []planner.Sample
	for draw := range draws {
		samples = append(samples, planner.Sample{Start: now, Draw: 1e6 + draw, Now: true, Weight: 1})
	}
	if err := c.simulate(t.Context(), c.candidates, samples); err != nil {
		t.Fatal(err)
	}
	means = map[string]float64{}
	for _, k := range c.candidates {
		if k.refused != nil {
			continue
		}
		for _, s := range samples {
			means[k.name] += k.known[idOf(s)].Cost / draws
		}
		if best == "" || means[k.name] < means[best] {
			best = k.name
		}
	}
	return best, means
}

// With a short history of changing prices, each past start is drawn often enough.
func TestShortHistoriesAreDrawnOften(t *testing.T) {
	for _, starts := range []int{9, 30, 105, 300} {
		cfg, now := constantJob(t, "gce-spot", "gce", 70*24*time.Hour)
		for i := range cfg.Pools {
			if p := &cfg.Pools[i]; !p.OnDemand() {
				points := p.History.Points(time.Time{}, now)
				for j := range points {
					points[j].Price += market.USD(j % 2)
				}
			}
		}
		var past []planner.Sample
		for i := range starts {
			past = append(past, planner.Sample{Start: now.Add(-time.Duration(i+8) * 4 * time.Hour), Weight: 1})
		}
		samples, parts := NewChooser(cfg, nil, planner.Wish{}).drawn(now, past)
		each := map[trialID]bool{}
		for _, s := range samples {
			each[idOf(s)] = true
		}
		if len(samples) < max(starts, enoughTrials) || len(samples) >= starts+enoughTrials || len(each) != len(samples) || samples[0].Now {
			t.Errorf("%d starts: %d trials, %d different, from now %v", starts, len(samples), len(each), samples[0].Now)
		}
		if parts[len(parts)-1] != len(samples) {
			t.Errorf("%d starts: parts %v of %d", starts, parts, len(samples))
		}
	}
}

// Fleets in bundles are drawn just often enough to have sufficient runs, and each past start at least once.
func TestBundlesAreDrawnLess(t *testing.T) {
	for starts, want := range map[int]int{0: bundledRuns, 9: 6, 20: 2, 54: 1, 300: 1} {
		if n := drawsEach(enoughTrials, starts, 25); n != want {
			t.Errorf("%d starts are drawn %d times, want %d", starts, n, want)
		}
	}
}
