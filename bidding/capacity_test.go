package bidding

import (
	"math"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/hazard"
)

// priced returns a spot pool in a zone at a constant share of its on-demand price.
func priced(size, zone string, share float64) Candidate {
	c := pool(size, 0, share)
	c.Pool.Zone = zone
	return c
}

func capacityState(pools ...Candidate) State {
	s := state(0, pools...)
	s.Want = Want{VCPU: 64}
	s.Job = Job{Upkeep: types["xlarge"].OnDemand, Startup: 5 * time.Minute, Work: 64 * 24}
	return s
}

func TestEvictionRate(t *testing.T) {
	c := priced("xlarge", "a", 0.3)
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s: %g evictions per hour, want %g", what, got, want)
		}
	}
	now, assumed := start.Add(48*time.Hour), hazard.Assume("ec2", c.Type).PerHour()
	near("nothing known", evictionRate(&c, market.Terms{}, 1, now), assumed)
	c.Hints.Interruptions = Hint{Value: 1 - math.Exp(-0.73), At: start} // once in 1,000 h
	near("by the hint", evictionRate(&c, market.Terms{}, 1, now), 0.001)
	c.Hints.Lifetimes = market.Lifetimes{Machines: 4, Evicted: 3, Watched: 3000 * time.Hour}
	near("3 evictions in 3,000 h of our own beside", evictionRate(&c, market.Terms{}, 1, now), 0.001)
	c.Hints.Lifetimes = market.Lifetimes{Machines: 10, Watched: 1000 * time.Hour}
	near("none in 1,000 h of our own", evictionRate(&c, market.Terms{}, 1, now), 0.0005)

	c.Hints = Hints{}
	a, err := market.NewAvailability([]market.AvailabilityPoint{
		{At: start, Count: 4}, {At: start.Add(10 * time.Hour), Count: 0}, {At: start.Add(20 * time.Hour), Count: 4},
		{At: start.Add(30 * time.Hour), Count: 1},
	}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	c.Availability = a
	near("watched: one end in 38 h with a machine at least", evictionRate(&c, market.Terms{}, 1, now), (1+24*assumed)/(24+38))
	near("four machines: two ends in 20 h", evictionRate(&c, market.Terms{}, 4, now), (2+24*assumed)/(24+20))
}

func TestCapacitySpreads(t *testing.T) {
	s := capacityState(
		priced("2xlarge", "a", 0.30), priced("xlarge", "a", 0.30), priced("2xlarge", "b", 0.302), priced("xlarge", "c", 0.40))
	for i := range s.Pools { // machines last for an hour
		s.Pools[i].Hints.Lifetimes = market.Lifetimes{Machines: 100, Evicted: 100, Watched: 100 * time.Hour}
	}
	plan := Capacity{}.Plan(s)
	bought := map[market.Pool]int{}
	for _, a := range plan.Acquire {
		bought[a.Pool] = a.Count * types[a.Pool.Type[len("c3."):]].VCPU
	}
	if len(bought) != 3 || bought[s.Pools[3].Pool] != 0 {
		t.Fatalf("bought %v; want a share in each of the three pools that cost about the same", bought)
	}
	total := 0
	for p, n := range bought {
		total += n
		if n > 64/3+8 {
			t.Errorf("%d of 64 vCPUs in %s: one bulk eviction takes more than a share", n, p)
		}
	}
	if total < 64 || total > 64+8 {
		t.Errorf("bought %d vCPUs, want 64", total)
	}
}

// TestSpreadIsWorthWhatItSaves: on average a spread saves BulkLoss at each eviction of the cheapest pool. Long-lived pools get no share of
// it at a price difference of two thirds of a percent; spreading over pools at the same price is free.
func TestSpreadIsWorthWhatItSaves(t *testing.T) {
	lasting := market.Lifetimes{Machines: 10, Watched: 2000 * time.Hour}
	for _, c := range []struct {
		share float64 // of the on-demand price, in the second zone
		rate  market.Lifetimes
		loss  time.Duration
		want  int
	}{
		{0.30, lasting, 0, 2}, {0.302, lasting, 0, 1}, {0.302, lasting, 40 * time.Hour, 2},
		{0.302, market.Lifetimes{Machines: 100, Evicted: 100, Watched: 100 * time.Hour}, 0, 2},
		{0.31, market.Lifetimes{Machines: 100, Evicted: 100, Watched: 100 * time.Hour}, 0, 1},
	} {
		s := capacityState(priced("xlarge", "a", 0.30), priced("xlarge", "b", c.share))
		for i := range s.Pools {
			s.Pools[i].Hints.Lifetimes = c.rate
		}
		if plan := (Capacity{BulkLoss: c.loss}).Plan(s); len(plan.Acquire) != c.want {
			t.Errorf("%+v: %d pools: %+v", c, len(plan.Acquire), plan.Acquire)
		}
	}
}

func TestCapacityWeighsEvictionsAgainstPrice(t *testing.T) {
	s := capacityState(priced("xlarge", "a", 0.30), priced("xlarge", "b", 0.33))
	if plan := (Capacity{}).Plan(s); len(plan.Acquire) != 1 || plan.Acquire[0].Pool != s.Pools[0].Pool {
		t.Fatalf("the cheaper pool: %+v", plan.Acquire)
	}
	s.Pools[0].Hints.Lifetimes = market.Lifetimes{Machines: 100, Evicted: 100, Watched: 40 * time.Hour}
	s.Pools[1].Hints.Lifetimes = market.Lifetimes{Machines: 10, Watched: 2000 * time.Hour}
	if plan := (Capacity{}).Plan(s); len(plan.Acquire) != 1 || plan.Acquire[0].Pool != s.Pools[1].Pool {
		t.Errorf("machines of the cheaper pool last half an hour: %+v", plan.Acquire)
	}
}

func TestCapacityTakesWhatThereIs(t *testing.T) {
	s := capacityState(priced("xlarge", "a", 0.30), priced("xlarge", "b", 0.40))
	a, err := market.NewAvailability([]market.AvailabilityPoint{{At: start, Count: 5}}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	s.Pools[0].Availability = a
	plan := Capacity{}.Plan(s)
	if len(plan.Acquire) != 2 || plan.Acquire[0].Count != 5 || plan.Acquire[1].Count != 11 {
		t.Errorf("5 of 16 are there, the others elsewhere: %+v", plan.Acquire)
	}
	s.Pools[1].NoCapacityUntil = s.Now.Add(time.Minute)
	s.Held = []Allocation{{Pool: s.Pools[0].Pool, Count: 5, Ready: 5, Launch: start}}
	if plan := (Capacity{}).Plan(s); len(plan.Acquire) != 0 || !plan.AskAgain.After(s.Now) {
		t.Errorf("nothing more is there: %+v", plan)
	}
}

func TestCapacityMoves(t *testing.T) {
	s := capacityState(priced("xlarge", "a", 0.40), priced("xlarge", "b", 0.30))
	s.Held = []Allocation{{Pool: s.Pools[0].Pool, Count: 16, Ready: 16, Launch: start}}
	plan := Capacity{}.Plan(s)
	if plan.Switch == nil || plan.Switch.To != s.Pools[1].Pool || len(plan.Acquire) != 1 || plan.Acquire[0].Count != 16 {
		t.Fatalf("work is cheaper by a quarter elsewhere: %s", plan.Why)
	}
	s.Job.Done = s.Job.Work - 4
	if plan := (Capacity{}).Plan(s); plan.Switch != nil {
		t.Errorf("a switch for the last four vCPU hours: %s", plan.Why)
	}
	s.Job.Done = 0
	s.Pools[1] = priced("xlarge", "b", 0.397)
	if plan := (Capacity{}).Plan(s); plan.Switch != nil {
		t.Errorf("a switch for less than 1 %%: %s", plan.Why)
	}
}

func TestCapacityKeepsDeadlines(t *testing.T) {
	s := capacityState(onDemandPool("xlarge"), priced("xlarge", "b", 0.30))
	s.Pools[1].NoCapacityUntil = s.Now.Add(time.Minute)
	s.Job.Started = s.Now
	if plan := (Capacity{}).Plan(s); len(plan.Acquire) != 0 {
		t.Errorf("without a deadline it waits: %+v", plan.Acquire)
	}
	s.Job.Started = s.Now.Add(-48 * time.Hour)
	if plan := (Capacity{}).Plan(s); len(plan.Acquire) != 1 || plan.Acquire[0].Pool != s.Pools[0].Pool {
		t.Errorf("not for ever: %+v; %s", plan.Acquire, plan.Why)
	}
	s.Job.Started = s.Now
	s.Job.Deadline = s.Now.Add(24*time.Hour + 5*time.Minute)
	if plan := (Capacity{}).Plan(s); len(plan.Acquire) != 1 || plan.Acquire[0].Pool != s.Pools[0].Pool {
		t.Errorf("the deadline leaves no time: %+v; %s", plan.Acquire, plan.Why)
	}
}

// TestCapacityWeighsFees: traffic costs money in zones other than that of the reliable machines, so these must be cheaper by that much.
func TestCapacityWeighsFees(t *testing.T) {
	home, abroad := priced("xlarge", "a", 0.30), priced("xlarge", "b", 0.29)
	for book, want := range map[string]string{"ec2-now": "b", "ec2-now+disk=20x0.08": "b", "ec2-now+traffic=0.5x0.01@a": "a"} {
		rules, err := market.Rules(book)
		if err != nil {
			t.Fatal(err)
		}
		s := capacityState(home, abroad)
		s.Job.Terms = rules.Terms()
		plan := Capacity{}.Plan(s)
		if len(plan.Acquire) != 1 || plan.Acquire[0].Pool.Zone != want {
			t.Errorf("%s: %+v, want machines of zone %s", book, plan.Acquire, want)
		}
	}
}
