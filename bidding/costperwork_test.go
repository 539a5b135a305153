package bidding

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

// week returns a pool with prices every 20 minutes for eight days, as shares of the on-demand price by the hour of the history and its
// third.
func week(size string, share func(hour, third int) float64) Candidate {
	var pairs []float64
	for i := range 8 * 24 * 3 {
		pairs = append(pairs, float64(20*i), share(i/3, i%3))
	}
	return pool(size, pairs...)
}

// budgeted returns a state of a job with eight hours of work for its ten machines, a week after the prices begin.
func budgeted(t *testing.T, pools ...Candidate) State {
	t.Helper()
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	s := State{Now: start.Add(7*24*time.Hour + time.Minute), Want: Want{Machines: 10}, Pools: pools}
	s.Job = Job{
		Started: s.Now.Add(-5 * time.Minute), Work: 8 * 10 * 4, Upkeep: types["xlarge"].OnDemand,
		Startup: 5 * time.Minute, Notice: 2 * time.Minute, Handover: time.Minute, Leave: 2 * time.Minute, Terms: rules.Terms(),
	}
	return s
}

// hold returns the state with ten machines of its first pool, launched some time ago at a bid.
func hold(s State, ago time.Duration, bid market.USD) State {
	s.Held = []Allocation{{Pool: s.Pools[0].Pool, Bid: bid, Count: 10, Ready: 10, Launch: s.Now.Add(-ago)}}
	return s
}

// TestProspectsAgainstBruteForce walks through the history for every moment and bid.
func TestProspectsAgainstBruteForce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var points []market.PricePoint
	for at, price := start, 1000.0; at.Before(start.Add(8 * 24 * time.Hour)); at = at.Add(time.Duration(random.IntN(1500)) * time.Second) {
		price *= math.Exp(random.NormFloat64() / 20)
		points = append(points, market.PricePoint{At: at, Price: market.USD(price) + 1})
	}
	h, until := market.NewHistory(points), start.Add(7*24*time.Hour+17*time.Minute)
	s := span{increment: time.Hour, startup: 5 * time.Minute, handover: 80 * time.Second, notice: 2 * time.Minute, left: 50 * time.Minute, free: true}
	o := (*Days)(nil).lookOut(market.Pool{}, h, until, 5*24*time.Hour, s.increment)
	factors := []float64{1, 1.03, 1.2, 3}
	got, late := make([]prospect, len(factors)), make([]prospect, len(factors))
	if !o.prospects(1200, factors, s, got) {
		t.Fatal("nothing is known of a week of prices")
	}
	for _, left := range []time.Duration{7 * time.Minute, s.left} { // the second by the sums of the first
		one := s
		one.left = left
		o.ending(1200, factors, one, late)
	}
	for i, factor := range factors {
		var want prospect
		total := 0.0
		for at := until.Add(-5 * 24 * time.Hour).Truncate(momentEvery).Add(momentEvery); at.Before(until.Add(-time.Hour)); at = at.Add(momentEvery) {
			price, _ := h.At(at)
			d := math.Log(float64(price)/1200) / likeness
			weight := unlike
			if math.Abs(d) < 4 {
				weight += math.Exp(-d * d / 2)
			}
			total += weight
			one := prospect{hours: 55.0 / 60, work: 50.0 / 60, paid: 1}
			for _, p := range h.Points(at, at.Add(time.Hour-1)) {
				after := p.At.Sub(at)
				if float64(p.Price)/float64(price) > factor {
					if after+s.notice < time.Hour && after < s.startup+s.left {
						one = prospect{hours: after.Hours(), work: max(after-s.startup-s.handover, 0).Hours(), lost: 1}
					}
					break
				}
			}
			want = prospect{want.hours + weight*one.hours, want.work + weight*one.work, want.paid + weight*one.paid, want.lost + weight*one.lost}
		}
		near := func(what string, got, want float64) {
			if math.Abs(got-want) > 1e-9 {
				t.Errorf("at %g times the price, %s: %g, by brute force %g", factor, what, got, want)
			}
		}
		near("hours", got[i].hours, want.hours/total)
		near("work", got[i].work, want.work/total)
		near("paid", got[i].paid, want.paid/total)
		near("lost", got[i].lost, want.lost/total)
		near("hours at the end", late[i].hours, want.hours/total)
		near("work at the end", late[i].work, want.work/total)
		near("lost at the end", late[i].lost, want.lost/total)
	}
}

func TestCostPerWorkWaitsForCheapTimes(t *testing.T) {
	// Cheap in three hours of four, and nearly as dear as on demand now.
	s := budgeted(t, onDemandPool("xlarge"), week("xlarge", func(hour, _ int) float64 {
		if hour%4 == 0 {
			return 0.9
		}
		return 0.1
	}))
	plan := CostPerWork{}.Plan(s)
	if len(plan.Acquire) != 0 || !strings.HasPrefix(plan.Why, "waiting") || !plan.AskAgain.After(s.Now) {
		t.Errorf("bought in a dear hour: %+v; %s", plan.Acquire, plan.Why)
	}
	s.Job.Deadline = s.Now.Add(8 * time.Hour)
	if plan := (CostPerWork{}).Plan(s); len(plan.Acquire) != 1 {
		t.Errorf("with a deadline that leaves no time to wait: %s", plan.Why)
	}
	s.Job.Deadline = time.Time{}
	s.Job.Started = s.Now.Add(-21 * time.Hour)
	if plan := (CostPerWork{}).Plan(s); len(plan.Acquire) != 1 {
		t.Errorf("patience is at its end: %s", plan.Why)
	}
	s.Job.Started, s.Now = s.Now.Add(time.Hour), s.Now.Add(time.Hour)
	if plan := (CostPerWork{}).Plan(s); len(plan.Acquire) != 1 || plan.Acquire[0].Pool.Class != market.Spot || plan.Acquire[0].Count != 10 {
		t.Errorf("in a cheap hour: %+v; %s", plan.Acquire, plan.Why)
	}
}

func TestCostPerWorkBuysOnDemandWhenSpotIsDearer(t *testing.T) {
	s := budgeted(t, onDemandPool("xlarge"), week("xlarge", func(int, int) float64 { return 2 }))
	plan := CostPerWork{}.Plan(s)
	if len(plan.Acquire) != 1 || plan.Acquire[0].Pool != s.Pools[0].Pool || plan.Acquire[0].Bid != 0 {
		t.Errorf("spot has cost twice the on-demand price for a week: %+v; %s", plan.Acquire, plan.Why)
	}
}

func TestCostPerWorkBySecond(t *testing.T) {
	rules, err := market.Rules("ec2-now")
	if err != nil {
		t.Fatal(err)
	}
	s := budgeted(t, week("2xlarge", func(int, int) float64 { return 0.3 }), week("xlarge", func(int, int) float64 { return 0.2 }))
	s.Job.Terms = rules.Terms()
	s.Want = Want{VCPU: 40}
	plan := CostPerWork{}.Plan(s)
	if len(plan.Acquire) != 1 || plan.Acquire[0].Pool != s.Pools[1].Pool {
		t.Fatalf("acquires %+v", plan.Acquire)
	}
	if bid := plan.Acquire[0].Bid; bid != s.Pools[1].Type.OnDemand { // at the price itself, a drift of $0.0005 evicted the fleet
		t.Errorf("bids $%s where bids have no meaning", bid)
	}
	s.Held = []Allocation{{Pool: s.Pools[0].Pool, Bid: s.Pools[0].Type.OnDemand, Count: 5, Ready: 5, Launch: s.Now.Add(-time.Hour)}}
	plan = CostPerWork{}.Plan(s)
	if plan.Switch == nil || plan.Switch.To != s.Pools[1].Pool || plan.Acquire[0].Count != 10 {
		t.Errorf("the other pool is cheaper by a third: %s", plan.Why)
	}
	s.Pools[1] = week("xlarge", func(int, int) float64 { return 0.298 })
	if plan := (CostPerWork{}).Plan(s); plan.Switch != nil {
		t.Errorf("a switch for 0.7 %%: %s", plan.Why)
	}
	s.Pools[1].Hints.Interruptions = Hint{Value: 0.99, At: s.Now}
	if plan := (CostPerWork{}).Plan(hold(s, 0, 0)); plan.Considered[1].MTTF.Mean > 200*time.Hour {
		t.Errorf("a pool that loses 99 %% of its machines in a month has an MTTF of %s", plan.Considered[1].MTTF.Mean)
	}
	s.Job.Done = s.Job.Work - 1
	s.Pools[1] = week("xlarge", func(int, int) float64 { return 0.2 })
	if plan := (CostPerWork{}).Plan(s); plan.Switch != nil {
		t.Errorf("a switch for the last vCPU hour: %s", plan.Why)
	}
}

// TestForecastOfTheHour: it is made once an hour and does not depend on which run requests it first: runs that begin a minute apart share
// it.
func TestForecastOfTheHour(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 3))
		share := func(int, int) float64 { return float64(10+random.IntN(60)) / 64 }
		a, b := week("2xlarge", share), week("xlarge", share)
		var worth []float64
		for _, minute := range []time.Duration{0, 1, 39, 59} {
			s := budgeted(t, a, b)
			s.Now = s.Now.Truncate(time.Hour).Add(minute * time.Minute)
			for i := range s.Pools {
				s.Pools[i].History = s.Pools[i].History.Until(s.Now)
			}
			round := &budgeting{State: s, fleet: fleetOf(s)}
			round.consider()
			round.lookAhead()
			worth = append(worth, round.forecast.worth)
		}
		if slices.Max(worth) != slices.Min(worth) {
			t.Errorf("seed %d: worth %v within one hour", seed, worth)
		}
	}
}

// TestCostPerWorkMetamorphic: doubled prices give the same choices at twice the bids, and a day later the same plan.
func TestCostPerWorkMetamorphic(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		share := func(int, int) float64 { return float64(1+random.IntN(60)) / 64 }
		s := budgeted(t, onDemandPool("2xlarge"), week("2xlarge", share), week("xlarge", share))
		if random.IntN(2) == 0 {
			s = hold(s, time.Duration(random.IntN(90))*time.Minute, 0)
			s.Held[0].Pool, s.Held[0].Bid = s.Pools[1].Pool, s.Pools[1].Type.OnDemand
		}
		plan := CostPerWork{}.Plan(s)
		doubled := transform(s, 2, 0)
		doubled.Job.Upkeep *= 2
		later := transform(s, 1, 24*time.Hour)
		later.Job.Started = later.Job.Started.Add(24 * time.Hour)
		for name, other := range map[string]Plan{"doubled": CostPerWork{}.Plan(doubled), "a day later": CostPerWork{}.Plan(later)} {
			if len(other.Acquire) != len(plan.Acquire) || len(other.Release) != len(plan.Release) {
				t.Fatalf("seed %d, %s: %s; was %s", seed, name, other.Why, plan.Why)
			}
			for i, a := range other.Acquire {
				want := plan.Acquire[i]
				bid := want.Bid
				if name == "doubled" {
					bid *= 2
				}
				if a.Pool != want.Pool || a.Count != want.Count || a.Bid < bid-2 || a.Bid > bid+2 {
					t.Errorf("seed %d, %s: %+v; was %+v", seed, name, a, want)
				}
			}
		}
	}
}

func TestCostPerWorkWithoutAPast(t *testing.T) {
	s := budgeted(t, pool("xlarge", 7*24*60, 0.2))
	if plan := (CostPerWork{}).Plan(s); len(plan.Acquire) != 1 || plan.Acquire[0].Bid != s.Pools[0].Type.OnDemand {
		t.Errorf("a market that opened a minute ago: %+v; %s", plan.Acquire, plan.Why)
	}
	s.Pools[0] = pool("xlarge")
	if plan := (CostPerWork{}).Plan(s); len(plan.Acquire) != 0 || plan.Why == "" || plan.Considered[0].Why == "" {
		t.Errorf("a market without prices: %+v", plan)
	}
}

// TestLastHourUsesFewestMachines: at the end of its paid hour a fleet with a quarter of an hour's work left keeps only enough machines to
// finish it within the next hour; and none if the paid time suffices.
func TestLastHourUsesFewestMachines(t *testing.T) {
	s := budgeted(t, week("xlarge", func(int, int) float64 { return 0.2 }))
	s = hold(s, 57*time.Minute+30*time.Second, types["xlarge"].OnDemand) // the last moment: 2 min before its end, and a margin
	s.Job.Started = s.Now.Add(-62 * time.Minute)
	for _, c := range []struct {
		left      float64 // hours of the whole fleet
		give      int
		whyPrefix string
	}{
		{5, 0, "kept"},       // all
		{1, 0, "kept"},       // all: the hour has 58 minutes
		{0.5, 4, "kept"},     // 6 machines do it in 52 minutes, 5 would take more than an hour
		{0.25, 7, "kept"},    // 3 do it
		{0.005, 10, "10 of"}, // half a minute is paid for
	} {
		s.Job.Done = s.Job.Work - c.left*10*4
		plan := CostPerWork{}.Plan(s)
		got := 0
		for _, r := range plan.Release {
			if r.Count == 0 {
				r.Count = 10
			}
			got += r.Count
		}
		if got != c.give || !strings.HasPrefix(plan.Why, c.whyPrefix) || len(plan.Acquire) > 0 {
			t.Errorf("%g fleet hours left: gives back %d, want %d; buys %+v; %s", c.left, got, c.give, plan.Acquire, plan.Why)
		}
	}
}

// TestFewMachinesForLittleWork: for little work only enough machines are bought to do it within the hour, and none if the held machines
// will finish it in time.
func TestFewMachinesForLittleWork(t *testing.T) {
	s := budgeted(t, week("xlarge", func(int, int) float64 { return 0.2 }))
	s.Job.Done = s.Job.Work - 0.25*10*4
	plan := CostPerWork{}.Plan(s) // three would do it, and need a second hour of the reliable machine
	if len(plan.Acquire) != 1 || plan.Acquire[0].Count != 4 {
		t.Errorf("a quarter of an hour's work for ten: %+v; %s", plan.Acquire, plan.Why)
	}
	s.Job.Started = s.Now.Add(-30 * time.Minute) // the reliable machine's hour ends in half an hour
	s.Job.Upkeep *= 4
	if plan := (CostPerWork{}).Plan(s); len(plan.Acquire) != 1 || plan.Acquire[0].Count != 7 {
		t.Errorf("another hour of the reliable machine costs more than four more for one: %+v; %s", plan.Acquire, plan.Why)
	}
	s.Held = []Allocation{{Pool: s.Pools[0].Pool, Bid: s.Pools[0].Type.OnDemand, Count: 4, Ready: 4, Launch: s.Now.Add(-10 * time.Minute)}}
	if plan := (CostPerWork{}).Plan(s); len(plan.Acquire) != 0 {
		t.Errorf("four machines have 48 minutes for 37: %+v; %s", plan.Acquire, plan.Why)
	}
}
