package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/tiers"
)

// TestSkippedClocks: a run whose journal nobody reads skips clocks in which nothing happens, and gives exactly the
// result of its slow twin, whose journal is written: in random markets, with random faults.
func TestSkippedClocks(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		cfg := scenario(t, drawn(rng, "a", 4), drawn(rng, "b", 8))
		cfg.Seed = seed
		cfg.Job.Coarse = rng.IntN(2) == 0
		if rng.IntN(2) == 0 {
			cfg.Job.Clocks *= 7
		}
		if rng.IntN(3) == 0 {
			cfg = cfg.At(tempo.Place{Speed: 720, Notice: 4 * time.Second, Boot: 1500 * time.Millisecond, DeadAfter: 3 * time.Second})
		}
		names := []string{"tierml", "tierml-noswitch"}
		policy, err := bidding.ByName(names[rng.IntN(len(names))])
		if err != nil {
			t.Fatal(err)
		}
		cfg.Policy = policy
		if rng.IntN(3) == 0 {
			cfg.Reliable.Count, cfg.Checkpoints = 0, Checkpoints{Every: time.Duration(1+rng.IntN(40)) * time.Minute, Model: 2e9, Bandwidth: 100e6}
			if rng.IntN(2) == 0 {
				cfg.Checkpoints.Every, cfg.Checkpoints.EveryClocks = 0, 20
			}
		}
		for range rng.IntN(4) {
			cfg.Faults = append(cfg.Faults, Fault{
				At: time.Duration(rng.Int64N(int64(5 * time.Hour))), Do: []Verb{Evict, EvictNow, Kill}[rng.IntN(3)],
				Target: []string{"oldest", "newest", "random", "all"}[rng.IntN(4)], Count: 1 + rng.IntN(3),
			})
		}
		if rng.IntN(2) == 0 {
			cfg.Hazard = hazardOf(cfg, 0.2*rng.Float64())
			for i := range cfg.Hazard.Pools { // most events hit no machine
				cfg.Hazard.Pools[i].Places *= 1 + rng.IntN(100)
			}
		}
		fast, err := Run(cfg)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		cfg.Record = func(journal.Entry) {}
		slow, err := Run(cfg)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if fast != slow {
			t.Errorf("seed %d: skipping %+v\ngoing through all %+v", seed, fast, slow)
		}
	}
}

// TestSkippedCuts: only few cuts of a calm run are simulated, those around which something happens. Evictions for
// capacity that hit no machine do not count.
func TestSkippedCuts(t *testing.T) {
	cfg := scenario(t, candidate("a", 4, 24*cent, 0, 3))
	cfg.Job.Coarse, cfg.Job.Clocks = true, 7*cfg.Job.Clocks
	skipsCuts(t, cfg)
	cfg.Hazard = hazardOf(cfg, 0.01)
	cfg.Hazard.Pools[0].Places = 100_000
	skipsCuts(t, cfg)
}

func skipsCuts(t *testing.T, cfg Config) {
	t.Helper()
	held := 0
	cfg.Watch = func(_ time.Time, events []elasticity.Event, _ []elasticity.Action) {
		for _, e := range events {
			if r, ok := e.(elasticity.Reported); ok {
				if _, ok := r.Report.(tiers.CutHeld); ok {
					held++
				}
			}
		}
	}
	if _, err := Run(cfg); err != nil {
		t.Fatal(err)
	}
	played := held
	held, cfg.Record = 0, func(journal.Entry) {}
	if _, err := Run(cfg); err != nil {
		t.Fatal(err)
	}
	if played < 1 || played > held/5 {
		t.Errorf("%d of %d cuts were played, want a fifth at most", played, held)
	}
	t.Logf("%d of %d cuts were played", played, held)
}

// TestSettledFleetIsLeftAlone: once only on-demand machines keep the promise, prices and minutes lead to no decision, and the result equals
// that of the twin that decides at each. Exchange takes most of each clock here, so the work is dearer than promised.
func TestSettledFleetIsLeftAlone(t *testing.T) {
	for _, name := range []string{"tierml", "capacity", "cost-per-work", "checkpoint", "deadline", "on-demand"} {
		rng := rand.New(rand.NewPCG(39, 1))
		spot := drawn(rng, "a", 4)
		steady := spot
		steady.Pool.Class, steady.History = market.OnDemand, market.Constant(spot.Type.OnDemand)
		cfg := scenario(t, spot, drawn(rng, "b", 8), steady).At(tempo.Place{Speed: 720, Notice: 4 * time.Second, Boot: 1500 * time.Millisecond, DeadAfter: 3 * time.Second})
		cfg.FLOPSPerVCPU, cfg.Timing.Clock, cfg.Horizon = 720*cfg.FLOPSPerVCPU, 2*time.Minute, 0
		policy, err := bidding.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Policy, cfg.Deadline = policy, start.Add(6*time.Hour)
		steps := 0
		cfg.Watch = func(time.Time, []elasticity.Event, []elasticity.Action) { steps++ }
		fast, err := Run(cfg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		few := steps
		steps, cfg.Record = 0, func(journal.Entry) {}
		slow, err := Run(cfg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if fast != slow {
			t.Errorf("%s: left alone %+v\ndeciding each minute %+v", name, fast, slow)
		}
		if few > steps/2 {
			t.Errorf("%s: %d of %d steps, want at most half", name, few, steps)
		}
		t.Logf("%s: %d of %d steps, %.1f h, %s", name, few, steps, fast.Runtime.Hours(), fast.Bought)
	}
}

// drawn returns a candidate whose price changes occasionally, and sometimes exceeds every bid.
func drawn(rng *rand.Rand, kind string, vcpu int) bidding.Candidate {
	hours := []float64{0, float64(3 + rng.IntN(10))}
	for at := 0.0; at < 40; at += rng.ExpFloat64() * 0.7 {
		price := float64(3 + rng.IntN(20))
		if rng.IntN(12) == 0 {
			price = 300
		}
		hours = append(hours, at+0.01, price)
	}
	return candidate(kind, vcpu, 24*cent, hours...)
}
