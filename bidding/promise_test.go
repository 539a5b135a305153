package bidding

import (
	"math"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

// spending returns a job of ten machines for ten hours, billed by the second, that has cost this many hours of the fleet on demand and done
// no work: undisturbed it costs ten.
func spending(t *testing.T, hours float64) State {
	t.Helper()
	rules, err := market.Rules("gce-spot")
	if err != nil {
		t.Fatal(err)
	}
	s := sorted(state(10, pool("xlarge", calm()...), onDemandPool("xlarge")))
	s.Job = Job{Started: s.Now.Add(-time.Hour), Work: 400, ReliableRate: 0.1, Terms: rules.Terms()}
	s.Due = func(time.Time) market.USD { return usdOf(10 * hours) }
	s.Begins = func(time.Time) time.Time { return time.Time{} }
	return s
}

// bought returns the class that a plan buys.
func bought(p Plan) market.Class {
	if len(p.Acquire) == 0 {
		return ""
	}
	return p.Acquire[0].Pool.Class
}

// Every policy buys on demand when the money spent plus the rest on demand costs too much, and not before. On-demand itself buys nothing
// here.
func TestPromiseHoldsUnderAllPolicies(t *testing.T) {
	for _, p := range policies {
		if p == Policy(OnDemand{}) {
			continue
		}
		s := spending(t, 4.1)
		s.Job.Deadline = s.Now.Add(100 * time.Hour)
		if plan := Ask(p, s); bought(plan) != market.OnDemand || plan.Acquire[0].Count != 10 {
			t.Errorf("%s: acquires %+v: %s", p.Name(), plan.Acquire, plan.Why)
		}
		s.Due = func(time.Time) market.USD { return usdOf(10) }
		if plan := Ask(p, s); bought(plan) == market.OnDemand {
			t.Errorf("%s buys on demand in a calm market: %s", p.Name(), plan.Why)
		}
	}
}

// Work behind a reliable tier is safe; without one only saved work is.
func TestPromiseCountsSavedWork(t *testing.T) {
	s := spending(t, 5)
	s.Job.Done = 80
	if plan := Ask(TierML{}, s); bought(plan) != market.Spot {
		t.Errorf("behind a tier: %s", plan.Why)
	}
	s.Job.ReliableRate = 0
	if plan := Ask(TierML{}, s); bought(plan) != market.OnDemand {
		t.Errorf("nothing is saved: %s", plan.Why)
	}
	s.Job.Saved = 80
	if plan := Ask(TierML{}, s); bought(plan) != market.Spot {
		t.Errorf("saved: %s", plan.Why)
	}
}

// Spot machines work until those on demand do. A fleet that only works as a whole moves at once.
func TestPromiseLeavesSpot(t *testing.T) {
	s := spending(t, 4.1)
	onDemand, spot := s.Pools[0].Pool, s.Pools[1].Pool
	s.Held = []Allocation{{Pool: spot, Bid: usdOf(1), Count: 10, Ready: 10, Launch: s.Now.Add(-time.Hour)}}
	if plan := Ask(TierML{}, s); bought(plan) != market.OnDemand || len(plan.Release) > 0 {
		t.Errorf("beside spot: %+v", plan)
	}
	if plan := Ask(Checkpoint{}, s); bought(plan) != market.OnDemand || len(plan.Release) != 1 {
		t.Errorf("in place of spot: %+v", plan)
	}
	s.Held = append([]Allocation{{Pool: onDemand, Count: 10, Launch: s.Now}}, s.Held...)
	if plan := Ask(TierML{}, s); len(plan.Acquire)+len(plan.Release) > 0 {
		t.Errorf("on demand starts: %+v", plan)
	}
	s.Held[0].Ready = 10
	if plan := Ask(TierML{}, s); len(plan.Acquire) > 0 || len(plan.Release) != 1 || plan.Release[0].Pool != spot {
		t.Errorf("on demand works: %+v", plan)
	}
}

// Spending is checked again before the machines can have used up the remainder, and not at each price.
func TestPromiseIsLookedAtInTime(t *testing.T) {
	s := spending(t, 3)
	plan := Ask(TierML{}, s)
	if left := plan.Afforded.Sub(s.Now); bought(plan) != market.Spot || left < 55*time.Minute || left > 60*time.Minute || plan.AskAgain.After(plan.Afforded) {
		t.Errorf("one hour of the fleet is left: afforded for %s, asked again at %s: %s", left, plan.AskAgain, plan.Why)
	}
	s.Held = []Allocation{{Pool: s.Pools[1].Pool, Bid: usdOf(1), Count: 10, Ready: 10, Launch: s.Now}}
	s.Afforded = plan.Afforded
	s.Due = func(time.Time) market.USD { panic("the bill is made although nothing is bought") }
	if again := Ask(TierML{}, s); !again.Afforded.Equal(plan.Afforded) {
		t.Errorf("afforded until %s, then %s", plan.Afforded, again.Afforded)
	}
}

// Where hours are billed, spending is checked before the next hour of any machine, including one that serves instead of a reliable tier,
// and not every second, as fees grow.
func TestPromiseIsLookedAtBeforeEachHour(t *testing.T) {
	s := spending(t, 0)
	rules, err := market.Rules("ec2-pay-bid")
	if err != nil {
		t.Fatal(err)
	}
	s.Job.Terms, s.Job.ReliableRate = rules.Terms(), 0
	launched := s.Now.Add(-50 * time.Minute)
	s.Due = func(at time.Time) market.USD {
		return usdOf(1 + float64(at.Sub(launched)/time.Hour) + 0.005*at.Sub(launched).Hours())
	}
	s.Begins = func(at time.Time) time.Time { return at.Add(time.Hour - at.Sub(launched)%time.Hour) }
	plan := Ask(TierML{}, s)
	if left := plan.Afforded.Sub(s.Now); left < 5*time.Minute || left > 10*time.Minute {
		t.Errorf("an hour of what serves is over in 10 minutes; afforded for %s: %s", left, plan.Why)
	}
}

// There is no promise for a job that may not buy on demand, nor beyond its budget.
func TestPromiseIsNotMade(t *testing.T) {
	s := spending(t, 4.1)
	s.Job.Budget, s.Job.Spent = usdOf(100), usdOf(41)
	if plan := Ask(TierML{}, s); bought(plan) != market.Spot {
		t.Errorf("over budget: %s", plan.Why)
	}
	s.Job.Budget, s.Job.Program = 0, true
	if plan := Ask(Checkpoint{}, s); bought(plan) != market.Spot {
		t.Errorf("a program: %s", plan.Why)
	}
	s.Job.Program = false
	s.Pools = s.Pools[1:]
	if plan := Ask(TierML{}, s); bought(plan) != market.Spot {
		t.Errorf("no on-demand pool: %s", plan.Why)
	}
}

// Prepaid hours of a reliable tier do not keep a small job, a third of whose fleet they cost, from a calm spot market; and a job shorter
// than machines take to start gets no promise.
func TestPromiseLeavesRoomToBegin(t *testing.T) {
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	s := sorted(state(3, pool("xlarge", calm()...), onDemandPool("xlarge")))
	machine := s.Pools[0].Type
	s.Job = Job{Started: s.Now.Add(-time.Minute), Work: 1.2 * 3 * machine.WorkRate(), ReliableRate: 0.1, Upkeep: machine.OnDemand, Terms: rules.Terms()}
	s.Due = func(time.Time) market.USD { return machine.OnDemand }
	s.Begins = func(time.Time) time.Time { return time.Time{} }
	if plan := Ask(TierML{}, s); bought(plan) != market.Spot {
		t.Errorf("an hour and 12 minutes: %s", plan.Why)
	}
	s.Job.Work, s.Job.Startup = 0.01*3*machine.WorkRate(), time.Minute
	if plan := Ask(TierML{}, s); bought(plan) != market.Spot {
		t.Errorf("36 seconds: %s", plan.Why)
	}
}

// Machines that are starting, and have turned out to be dear, are not replaced if they will do the rest within the paid hour: both would be
// paid. Nor is it useful if they cannot be kept busy.
func TestPromiseKeepsMachinesThatFinishInPaidTime(t *testing.T) {
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	s := sorted(state(10, pool("xlarge", calm()...), onDemandPool("xlarge")))
	machine := s.Pools[0].Type
	s.Job = Job{Started: s.Now, Work: 5 * machine.WorkRate(), ReliableRate: 0.1, Startup: 5 * time.Minute, Terms: rules.Terms()}
	s.Held = []Allocation{{Pool: s.Pools[1].Pool, Bid: usdOf(1), Count: 10, Launch: s.Now}}
	s.Begins = func(at time.Time) time.Time { return time.Time{} }
	s.Due = func(at time.Time) market.USD {
		if at.Before(s.Now) {
			return 0
		}
		return usdOf(9)
	}
	if plan := Ask(TierML{}, s); len(plan.Acquire)+len(plan.Release) > 0 {
		t.Errorf("half an hour of work: %+v", plan)
	}
	s.Job.Splits = 3
	if plan := Ask(TierML{}, s); bought(plan) != market.OnDemand {
		t.Errorf("seven of ten have nothing to do: %+v", plan)
	}
}

func TestSharedRate(t *testing.T) {
	for _, c := range []struct {
		counts []int
		rates  []float64
		want   float64
	}{
		{[]int{32}, []float64{4}, 128},
		{[]int{31}, []float64{4}, 64 / 0.75},             // two have three pieces
		{[]int{63, 32}, []float64{2.12, 4}, 64 * 2.12},   // half of the slower ones have one, and the others wait for them
		{[]int{1, 1}, []float64{1, 7}, 8},                // 8 and 56 pieces
		{[]int{100}, []float64{0.5}, 32},                 // 36 have none
		{[]int{1, 1000}, []float64{10, 1e-3}, 10},        // by the one alone
		{[]int{3, 2, 5}, []float64{1, 3, 2}, 64.0 / 3.5}, // 9, 20 and 35
	} {
		sum := 0.0
		for i, n := range c.counts {
			sum += float64(n) * c.rates[i]
		}
		if got := shared(64, sum, c.counts, c.rates); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%v machines of %v: %g, not %g", c.counts, c.rates, got, c.want)
		}
	}
}
