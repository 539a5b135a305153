package sim

import (
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/hazard"
)

// hazardOf takes machines of all pools at a rate per hour.
func hazardOf(cfg Config, perHour float64) *hazard.Hazard {
	h := &hazard.Hazard{Seed: 5}
	for _, p := range cfg.Pools {
		h.Pools = append(h.Pools, hazard.Pool{Pool: p.Pool, Life: hazard.Constant(perHour), Places: 2 * cfg.Want.Machines})
	}
	return h
}

// A machine is warned exactly when an event takes its slot, under every policy, and is gone after the notice.
func TestHazardTakesMachines(t *testing.T) {
	for _, name := range []string{"tierml", "cost-per-work", "checkpoint"} {
		cfg := scenario(t, candidate("a", 4, 24*cent, 0, 3), candidate("b", 4, 24*cent, 0, 4))
		var err error
		if cfg.Rules, err = market.Rules("ec2-now"); err != nil {
			t.Fatal(err)
		}
		if cfg.Policy, err = bidding.ByName(name); err != nil {
			t.Fatal(err)
		}
		cfg.Hazard = hazardOf(cfg, 0.3)
		events := map[time.Time]bool{}
		coming := cfg.Hazard.Events(cfg.Start, cfg.Horizon)
		for e, more := coming.Next(); more; e, more = coming.Next() {
			events[e.At] = true
		}
		r, entries := run(t, cfg)
		warned := 0
		for _, e := range entries {
			if e.Kind != journal.Notice {
				continue
			}
			if e.T.Before(cfg.Start.Add(r.Runtime - cfg.Timing.Notice)) { // otherwise the run may end first
				warned++
			}
			if at := e.T.Add(-cfg.Timing.NoticeLag); !events[at] {
				t.Errorf("%s: a notice for an eviction at %s, which is no event", name, at)
			}
		}
		if !r.Finished() || warned == 0 || r.Evictions != warned {
			t.Errorf("%s: %s with %d notices and %d evictions", name, r.Outcome, warned, r.Evictions)
		}
		silent := cfg
		if again, err := Run(silent); err != nil || again != r {
			t.Errorf("%s: without a journal %+v, with one %+v (%v)", name, again, r, err)
		}
		cfg.Hazard = nil
		if calm, _ := run(t, cfg); calm.Evictions != 0 {
			t.Errorf("%s: %d evictions without a hazard", name, calm.Evictions)
		}
	}
}
