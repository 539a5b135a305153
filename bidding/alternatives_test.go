package bidding

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tierml/tierml/market"
)

// zones returns the zones of choices, in order.
func zones(or []Choice) (names []string) {
	for _, c := range or {
		names = append(names, c.Pool.Zone)
	}
	return names
}

// calmIn never crossed the on-demand price.
func calmIn(size, zone string, share float64) Candidate { return priced(size, zone, share) }

// What may be offered: pools that are as good by the policy's own rule, at most 5 % dearer, with machines as large; each at its own bid.
func TestTierMLOffersEquallyGoodPools(t *testing.T) {
	restlessPool := pool("xlarge", restless()...)
	restlessPool.Pool.Zone = "a"
	refused := calmIn("xlarge", "g", 0.10)
	s := state(10, restlessPool, calmIn("xlarge", "b", 0.10), calmIn("xlarge", "c", 0.104), calmIn("2xlarge", "d", 0.10),
		calmIn("xlarge", "e", 0.106), calmIn("xlarge", "f", 0.10), refused)
	s.Pools[5].MaxPrice = market.Dollar / 20
	s.Pools[6].NoCapacityUntil = s.Now.Add(time.Minute)
	alone := TierML{}.Plan(s)
	if a := alone.Acquire[0]; a.Pool.Zone != "b" || a.Or != nil {
		t.Fatalf("alone: %+v", a)
	}
	s.Chooses = true
	plan := TierML{}.Plan(s)
	a := plan.Acquire[0]
	if len(plan.Acquire) != 1 || a.Pool.Zone != "b" || a.Count != 10 || a.Bid != types["xlarge"].OnDemand {
		t.Fatalf("%+v", plan.Acquire)
	}
	if got := zones(a.Or); !slices.Equal(got, []string{"f", "c"}) {
		t.Errorf("offers %v: not a pool of shorter MTTF (a), larger machines (d), 6 %% more (e), or none (g)", got)
	}
	if a.Or[0].Bid != market.Dollar/20 || a.Or[1].Bid != types["xlarge"].OnDemand {
		t.Errorf("bids %+v", a.Or)
	}
	if why := plan.Considered[2].Why; why != "as good as b c3.xlarge, within 5 %: the provider chooses" {
		t.Errorf("the verdict on a pool that may be chosen: %s", why)
	}
}

// On demand in any zone, at the same price.
func TestTierMLOffersZonesOnDemand(t *testing.T) {
	there := onDemandPool("xlarge")
	there.Pool.Zone = "us-west-1b"
	s := state(10, onDemandPool("xlarge"), there, pool("xlarge", 0, 2.0))
	s.Chooses = true
	plan := TierML{}.Plan(s)
	if a := plan.Acquire[0]; a.Pool != s.Pools[0].Pool || len(a.Or) != 1 || a.Or[0].Pool != there.Pool || a.Or[0].Bid != 0 {
		t.Errorf("%+v", a)
	}
}

// A switch goes to the single pool that its reason names.
func TestSwitchNamesOnePool(t *testing.T) {
	s := switching()
	twin := s.Pools[1]
	twin.Pool.Zone = "us-west-1b"
	s.Pools, s.Chooses = append(s.Pools, twin), true
	if plan := (TierML{}).Plan(s); plan.Switch == nil || plan.Acquire[0].Or != nil {
		t.Errorf("%+v", plan)
	}
}

// The provider spreads the fleet; the policy does not leave what it chose for another pool that it might have chosen.
func TestCapacityLetsTheProviderChoose(t *testing.T) {
	s := capacityState(priced("xlarge", "a", 0.309), priced("xlarge", "b", 0.30), priced("2xlarge", "c", 0.30), priced("xlarge", "d", 0.33))
	s.Chooses = true
	plan := Capacity{}.Plan(s)
	if len(plan.Acquire) != 1 || plan.Acquire[0].Pool.Type != "c3.xlarge" && plan.Acquire[0].Pool.Type != "c3.2xlarge" {
		t.Fatalf("%+v", plan.Acquire)
	}
	s.Pools = slices.Delete(s.Pools, 2, 3)
	plan = Capacity{}.Plan(s)
	a := plan.Acquire[0]
	if len(plan.Acquire) != 1 || a.Count != 16 || a.Pool.Zone != "b" || !slices.Equal(zones(a.Or), []string{"a"}) {
		t.Fatalf("%+v", plan.Acquire)
	}
	for _, c := range []struct {
		share float64 // of the held pool
		moves bool
	}{{0.309, false}, {0.325, false}, {0.345, true}} {
		s.Pools[0] = priced("xlarge", "a", c.share)
		s.Held = []Allocation{{Pool: s.Pools[0].Pool, Count: 16, Ready: 16, Launch: start}}
		plan = Capacity{}.Plan(s)
		if moves := plan.Switch != nil; moves != c.moves || moves && plan.Acquire[0].Or != nil {
			t.Errorf("at %g of the on-demand price, with 0.30 elsewhere: %+v", c.share, plan)
		}
	}
}

// Where bids deliberately allow some evictions, each pool is bought from separately.
func TestCostPerWorkOffersWhereSecondsAreBilled(t *testing.T) {
	same := func(int, int) float64 { return 0.3 }
	a, b := week("xlarge", same), week("xlarge", same)
	b.Pool.Zone = "us-west-1b"
	for rules, want := range map[string]int{"ec2-2017": 0, "ec2-now": 1} {
		s := budgeted(t, a, b)
		book, err := market.Rules(rules)
		if err != nil {
			t.Fatal(err)
		}
		s.Job.Terms, s.Chooses = book.Terms(), true
		plan := CostPerWork{}.Plan(s)
		if len(plan.Acquire) != 1 || len(plan.Acquire[0].Or) != want {
			t.Errorf("%s: %+v, %s", rules, plan.Acquire, plan.Why)
		}
	}
}

// In any market: a policy that may offer pools first buys the same number in the same pool at the same bid as one that may not, unless it
// spreads by itself; and its offers can be bought, at their bids, once each, in machines of equal weight.
func TestOffersCanBeBought(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pools []Candidate
		for i := range rapid.IntRange(1, 6).Draw(t, "pools") {
			size := rapid.SampledFrom([]string{"xlarge", "2xlarge"}).Draw(t, "size")
			share := rapid.SampledFrom([]float64{0.3, 0.303, 0.31, 0.4, 1.2}).Draw(t, "share")
			c := calmIn(size, fmt.Sprintf("zone-%d", i), share)
			if rapid.IntRange(0, 4).Draw(t, "refused") == 0 {
				c.NoCapacityUntil = start.Add(1000 * time.Hour)
			}
			pools = append(pools, c)
		}
		s := capacityState(pools...)
		s.Want = rapid.SampledFrom([]Want{{VCPU: 64}, {Machines: 10}}).Draw(t, "want")
		for _, policy := range []Policy{TierML{}, Capacity{}, CostPerWork{}} {
			s.Chooses = false
			alone := policy.Plan(s)
			for _, a := range alone.Acquire {
				if a.Or != nil {
					t.Fatalf("%s offers %+v, and nobody chooses", policy.Name(), a)
				}
			}
			s.Chooses = true
			plan := policy.Plan(s)
			if again := policy.Plan(s); !cmp.Equal(plan, again) {
				t.Fatalf("%s: equal states, other plans: %s", policy.Name(), cmp.Diff(plan, again))
			}
			if (len(plan.Acquire) == 0) != (len(alone.Acquire) == 0) {
				t.Fatalf("%s buys %+v with a choice, %+v without", policy.Name(), plan.Acquire, alone.Acquire)
			}
			for i, a := range plan.Acquire {
				if policy.Name() == "tierml" && (a.Pool != alone.Acquire[i].Pool || a.Bid != alone.Acquire[i].Bid || a.Count != alone.Acquire[i].Count) {
					t.Fatalf("%s buys %+v with a choice, %+v without", policy.Name(), a, alone.Acquire[i])
				}
				seen := map[market.Pool]bool{a.Pool: true}
				for _, c := range a.Or {
					of := candidateOf(s, c.Pool)
					price, _ := of.History.At(s.Now)
					if seen[c.Pool] || price > c.Bid || of.NoCapacityUntil.After(s.Now) || of.Type.VCPU != candidateOf(s, a.Pool).Type.VCPU {
						t.Fatalf("%s offers %+v of %+v", policy.Name(), c, a)
					}
					seen[c.Pool] = true
				}
			}
		}
	})
}

// An hourly limit has room for the most expensive of the pools from which the provider may take machines.
func TestHourlyLimitCountsTheDearestChoice(t *testing.T) {
	s := state(10, priced("xlarge", "a", 0.100), priced("xlarge", "b", 0.104))
	s.Job.PerHour, s.Chooses = usdOf(1.0/0.95+1e-6), true // for ten of the cheaper pool
	plan := Ask(TierML{}, s)
	if len(plan.Acquire) != 1 || plan.Acquire[0].Count != 9 || len(plan.Acquire[0].Or) != 1 {
		t.Errorf("%+v: %s", plan.Acquire, plan.Why)
	}
}
