package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
)

// randomMarket is eight days of prices of two pools, most of the time well within the bid. Now and then both change at
// the same instant, or one of them rises above it.
func randomMarket(rng *rand.Rand) []bidding.Candidate {
	every := time.Duration(1+rng.IntN([]int{60, 600, 7200}[rng.IntN(3)])) * time.Second
	spikes := 1 + rng.IntN([]int{400, 4000, 40_000}[rng.IntN(3)])
	pools := []bidding.Candidate{candidate("a", 4, 24*cent, 0, 3), candidate("b", 4, 24*cent, 0, 4)}
	points := make([][]market.PricePoint, len(pools))
	for at := start.Add(-4 * 24 * time.Hour); at.Before(start.Add(4 * 24 * time.Hour)); {
		at = at.Add(time.Duration(rng.Int64N(int64(2*every/time.Second))+1) * time.Second)
		for i := range pools {
			price := cent + market.USD(rng.Int64N(int64(8*cent)))
			if rng.IntN(spikes) == 0 {
				price = 23*cent + market.USD(rng.Int64N(int64(4*cent)))
			}
			if rng.IntN(2) == 0 {
				points[i] = append(points[i], market.PricePoint{At: at, Price: price})
			}
		}
	}
	for i := range pools {
		pools[i].History = market.NewHistory(points[i])
	}
	return pools
}

// TestCoursesAreTheRuns: what is recalled of a course is what the simulation of that start itself comes to, on random
// markets, calm and wild ones.
func TestCoursesAreTheRuns(t *testing.T) {
	recalled := 0
	for seed := range uint64(36) {
		rng := rand.New(rand.NewPCG(seed, 3))
		cfg := scenario(t, randomMarket(rng)...)
		rules := []string{"ec2-2017", "ec2-now", "ec2-pay-bid", "gce-spot"}[seed%4]
		policy := []string{"tierml", "tierml-noswitch", "tierml-aggressive"}[seed%3]
		var err error
		if cfg.Rules, err = market.Rules(rules); err != nil {
			t.Fatal(err)
		}
		if cfg.Policy, err = bidding.ByName(policy); err != nil {
			t.Fatal(err)
		}
		cfg.Job.Coarse = true
		if seed%3 == 0 {
			cfg.Hazard = hazardOf(cfg, 0.01)
			cfg.Pools[seed%2].Hints.Interruptions = bidding.Hint{Value: 0.3, At: start}
		}
		var courses Courses
		t.Run(fmt.Sprint(seed, rules, policy), func(t *testing.T) {
			first := time.Duration(rng.IntN(24*60)) * time.Minute
			for i := range 60 {
				cfg.Start = start.Add(first + time.Duration(i*(1+i%7))*time.Minute)
				want, err := Run(cfg)
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := courses.recall(&cfg); ok {
					recalled++
				}
				if got, err := courses.Run(cfg); err != nil || got != want {
					t.Fatalf("from %s\nby its course %+v (%v)\nsimulated     %+v", cfg.Start, got, err, want)
				}
			}
		})
	}
	if recalled < 700 {
		t.Errorf("%d of 2160 starts took a known course", recalled)
	}
	t.Logf("%d of 2160 starts took a known course", recalled)
}

// TestCoursesAreNotForAll: what a course cannot tell of is simulated.
func TestCoursesAreNotForAll(t *testing.T) {
	calm := []bidding.Candidate{candidate("a", 4, 24*cent, 0, 3, 200, 3), candidate("b", 4, 24*cent, 0, 4, 200, 4)}
	for name, change := range map[string]func(*Config){
		"faults":       func(c *Config) { c.Faults = []Fault{{At: time.Hour, Do: Evict}} },
		"a budget":     func(c *Config) { c.Budget = market.Dollar },
		"an hour":      func(c *Config) { c.PerHour = 10 * market.Dollar },
		"a price late": func(c *Config) { c.Timing.PriceLag = time.Second },
		"cost-per-work": func(c *Config) {
			c.Policy = bidding.CostPerWork{}
		},
		"capacity known": func(c *Config) { c.Pools[0].Availability = &market.Availability{} },
		"half a second":  func(c *Config) { c.Start = c.Start.Add(time.Second / 2) },
	} {
		cfg := scenario(t, calm...)
		if !repeatable(&cfg) {
			t.Fatal("a plain configuration is not repeatable")
		}
		cfg.Pools = append([]bidding.Candidate(nil), cfg.Pools...)
		if change(&cfg); repeatable(&cfg) {
			t.Errorf("%s: it is repeatable", name)
		}
	}
}

// TestCoursesWhileThereIsSomethingToDo: a price that comes while the reliable machines are about to be told their work, and which the
// policy finds nothing to do at, brings that forward by as much. A course without such a price is not that run.
func TestCoursesWhileThereIsSomethingToDo(t *testing.T) {
	differ := 0
	for after := 4*time.Minute + 49900*time.Millisecond; after <= 4*time.Minute+50200*time.Millisecond; after += 25 * time.Millisecond {
		a := candidate("a", 4, 24*cent, 0, 3)
		a.History = market.NewHistory([]market.PricePoint{
			{At: start.Add(-8 * 24 * time.Hour), Price: 3 * cent}, {At: start.Add(after), Price: 4 * cent}, {At: start.Add(20 * time.Hour), Price: 3 * cent},
		})
		cfg := scenario(t, a)
		cfg.Job.Coarse, cfg.Start = true, start.Add(-10*time.Hour)
		var courses Courses
		calm, err := courses.Run(cfg)
		if err != nil || len(courses.known) != 1 {
			t.Fatalf("%d courses of a calm run (%v)", len(courses.known), err)
		}
		cfg.Start = start
		want, err := Run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if want.Runtime != calm.Runtime {
			differ++
		}
		if got, err := courses.Run(cfg); err != nil || got != want {
			t.Errorf("a price after %s, purchase after %s: by its course %+v (%v), simulated %+v", after, courses.known[0].at, got, err, want)
		}
	}
	if differ == 0 {
		t.Error("no price made a difference: nothing was tested")
	}
}
