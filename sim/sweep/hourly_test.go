package sweep

import (
	"testing"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim"
)

// Whatever the policy, and even though prices rise, machines are evicted and pools are left meanwhile: no purchase of the demo exceeds its
// hourly limit.
func TestPurchasesKeepToTheHourlyLimit(t *testing.T) {
	for _, name := range []string{"tierml", "capacity", "checkpoint"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const limit = market.USD(1_500_000_000) // $1.50: the reliable machine and sixteen others always cost more
			above, bought := map[bool]int{}, map[bool]int{}
			for _, limited := range []bool{false, true} {
				cfg := demo(t)
				policy, err := bidding.ByName(name)
				if err != nil {
					t.Fatal(err)
				}
				cfg = WithPolicy(cfg, policy)
				cfg.MaxDuration = 0 // with fewer machines it takes longer
				if limited {
					cfg.PerHour = limit
				}
				var ledger cost.Ledger
				cfg.Record = func(e journal.Entry) {
					if err := ledger.Add(e); err != nil {
						t.Fatal(err)
					}
					if e.Kind == journal.Launch && e.Tier == "transient" {
						bought[limited]++
						if ledger.Rate(e.T) > limit {
							above[limited]++
						}
					}
				}
				result, err := sim.Run(cfg)
				if err != nil {
					t.Fatal(err)
				}
				if !result.Finished() {
					t.Errorf("limited %v: %s", limited, result.Outcome)
				}
			}
			if above[false] == 0 || above[true] > 0 || bought[true] == 0 {
				t.Errorf("of %d and, with a limit, %d machines were %d and %d bought above it", bought[false], bought[true], above[false], above[true])
			}
		})
	}
}
