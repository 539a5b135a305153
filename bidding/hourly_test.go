package bidding

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tierml/tierml/market"
)

// usdOf returns a multiple of the on-demand price of a c3.xlarge.
func usdOf(times float64) market.USD { return market.USD(times * float64(types["xlarge"].OnDemand)) }

// Ten machines at a tenth of the on-demand price each, plus a reliable one, cost twice that price an hour.
func TestHourlyLimitBuysFewer(t *testing.T) {
	for limit, want := range map[float64]int{0: 10, 100: 10, 2.2: 10, 2: 9, 1.5: 4, 1.2: 1, 1.1: 0, 0.5: 0} {
		s := state(10, pool("xlarge", calm()...))
		s.Job.Upkeep, s.Job.PerHour = usdOf(1), usdOf(limit)
		plan, bought := Ask(TierML{}, s), 0
		for _, a := range plan.Acquire {
			bought += a.Count
		}
		if bought != want {
			t.Errorf("limit %v: %d machines: %s", limit, bought, plan.Why)
		}
		said := strings.Contains(plan.Why, "limits.per_hour")
		if limited := want < 10; said != limited || plan.Considered[0].Chosen != (want > 0) {
			t.Errorf("limit %v: %s; %+v", limit, plan.Why, plan.Considered[0])
		}
	}
}

// Held machines are not supplemented by single ones as a price falls, nor is budget used that warned machines still cost.
func TestHourlyLimitCountsHeldMachines(t *testing.T) {
	s := state(10, pool("xlarge", calm()...))
	s.Job.PerHour = usdOf(0.7) // 0.665 to be used
	s.Held = []Allocation{{Pool: s.Pools[0].Pool, Bid: s.Pools[0].Type.OnDemand, Count: 5, Launch: start}}
	if plan := Ask(TierML{}, s); len(plan.Acquire) != 0 {
		t.Errorf("one more: %+v", plan.Acquire)
	}
	s.Job.PerHour = usdOf(0.8)
	if plan := Ask(TierML{}, s); len(plan.Acquire) != 1 || plan.Acquire[0].Count != 2 || !strings.Contains(plan.Acquire[0].Why, "2 of 5") {
		t.Errorf("two more: %+v", plan.Acquire)
	}
	s.Held[0].Warned = true
	if plan := Ask(TierML{}, s); len(plan.Acquire) != 1 || plan.Acquire[0].Count != 2 {
		t.Errorf("beside warned ones: %+v", plan.Acquire)
	}
}

// A move takes two fleets for a while, and is skipped entirely if there is no room for both.
func TestHourlyLimitAndSwitch(t *testing.T) {
	s := switching()
	if plan := Ask(TierML{}, s); plan.Switch == nil {
		t.Fatal(plan.Why)
	}
	s.Job.PerHour = usdOf(1.5) // the old fleet 1, the new one 2
	plan := Ask(TierML{}, s)
	if plan.Switch != nil || plan.Acquire != nil || plan.Release != nil || !strings.Contains(plan.Why, "has no room for a move") || !plan.Considered[0].Chosen || plan.Considered[1].Chosen {
		t.Errorf("%+v", plan)
	}
}

// Half a fleet is useless to a policy that kills and restarts.
func TestHourlyLimitAndWholeFleets(t *testing.T) {
	s := state(10, pool("xlarge", calm()...))
	s.Job.PerHour = usdOf(0.9)
	if plan := Ask(Checkpoint{}, s); plan.Acquire != nil || !strings.Contains(plan.Why, "has no room for a whole fleet") {
		t.Errorf("%+v", plan)
	}
	s.Job.PerHour = usdOf(1.1)
	if plan := Ask(Checkpoint{}, s); len(plan.Acquire) != 1 || plan.Acquire[0].Count != 10 {
		t.Errorf("%+v", plan)
	}
}

// Whatever the policy and the state, a purchase leaves the limit's margin free, and without a limit Ask is Plan.
func TestHourlyLimitHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		s.Job = Job{Started: s.Now.Add(-time.Hour), Deadline: s.Now.Add(20 * time.Hour), Work: 640, Upkeep: usdOf(float64(rapid.IntRange(0, 4).Draw(t, "upkeep"))),
			ReliableRate: 4, Startup: 5 * time.Minute}
		p := rapid.SampledFrom(policies).Draw(t, "policy")
		if diff := cmp.Diff(p.Plan(s), Ask(p, s)); diff != "" {
			t.Fatalf("%s without a limit: %s", p.Name(), diff)
		}
		s.Job.PerHour = usdOf(float64(rapid.IntRange(1, 80).Draw(t, "limit")) / 4)
		free := p.Plan(s)
		plan := Ask(p, s)
		sum := s.rate()
		for _, a := range plan.Acquire {
			price, _ := candidateOf(s, a.Pool).History.At(s.Now)
			sum += market.USD(a.Count) * price
			if a.Count < 1 || a.Why == "" {
				t.Fatalf("%s: %+v", p.Name(), a)
			}
		}
		if len(plan.Acquire) > 0 && sum > s.Job.PerHour {
			t.Fatalf("%s: %s an hour, above %s: %+v", p.Name(), sum, s.Job.PerHour, plan)
		}
		if len(free.Acquire) > 0 && (plan.Why == "" || len(plan.Considered) != len(free.Considered)) {
			t.Fatalf("%s: %+v", p.Name(), plan)
		}
	})
}

// Within the limit machines are bought only if they make the job faster: a clock takes as long as the machine with the most splits.
func TestPerHourBuysNoIdleMachines(t *testing.T) {
	for _, test := range []struct{ splits, room, bought int }{{0, 30, 30}, {64, 32, 32}, {64, 31, 22}, {64, 30, 22}, {64, 22, 22}, {64, 21, 16}, {256, 30, 29}} {
		s := sorted(state(40, pool("xlarge", calm()...)))
		s.Job.Splits, s.Job.PerHour = test.splits, usdOf(0.1*(float64(test.room)+0.5)/0.95)
		plan := Ask(TierML{}, s)
		if len(plan.Acquire) != 1 || plan.Acquire[0].Count != test.bought {
			t.Errorf("%d splits, room for %d machines: %+v", test.splits, test.room, plan.Acquire)
		}
		if told := strings.Contains(plan.Acquire[0].Why, "would be no faster"); told != (test.bought < test.room) {
			t.Errorf("%d splits, room for %d machines: %s", test.splits, test.room, plan.Acquire[0].Why)
		}
	}
	s := sorted(state(40, pool("xlarge", calm()...)))
	s.Held = []Allocation{{Pool: s.Pools[0].Pool, Bid: usdOf(1), Count: 22, Ready: 22, Launch: s.Now}}
	s.Job.Splits, s.Job.PerHour = 64, usdOf(0.1*31.5/0.95)
	if plan := Ask(TierML{}, s); len(plan.Acquire) > 0 {
		t.Errorf("beside 22 machines: %+v", plan.Acquire)
	}
}

// A purchase is cut to what the budget pays for, the first hour of each machine, and the run ends when nothing is held and it pays for
// nothing.
func TestBudgetBuysWhatItPaysFor(t *testing.T) {
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	for left, want := range map[float64]int{5: 10, 1: 10, 0.55: 5, 0.05: 0} { // ten machines cost 1 an hour
		s := state(10, pool("xlarge", calm()...))
		s.Job.Budget, s.Job.Spent, s.Job.Terms = usdOf(10), usdOf(10-left), rules.Terms()
		plan, bought := Ask(TierML{}, s), 0
		for _, a := range plan.Acquire {
			bought += a.Count
		}
		if bought != want || plan.Spent != (want == 0) || (want < 10) != strings.Contains(plan.Why, "the budget, ") {
			t.Errorf("%v left: %d machines, spent %v: %s", left, bought, plan.Spent, plan.Why)
		}
		s.Job.Overspends = true
		if plan := Ask(TierML{}, s); plan.Spent || len(plan.Acquire) != 1 || plan.Acquire[0].Count != 10 {
			t.Errorf("%v left, and no limit: %+v", left, plan)
		}
	}
}
