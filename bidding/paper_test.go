package bidding

import (
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

// The tests of this file each restate one rule of TierML (CMU-PDL-16-102), named by its part of the paper.

// On bids: they are the on-demand price. A higher bid would pay for machines that on-demand offers for less.
func TestPaperBidsTheOnDemandPrice(t *testing.T) {
	s := state(10, pool("xlarge", calm()...), pool("2xlarge", calm()...))
	for i, a := range append(TierML{}.Plan(s).Acquire, TierML{NeverSwitch: true}.Plan(s).Acquire...) {
		if want := candidateOf(s, a.Pool).Type.OnDemand; a.Bid != want {
			t.Errorf("acquisition %d bids %s for %s, on-demand is %s", i, a.Bid, a.Pool, want)
		}
	}
	s.Pools[0].MaxPrice = s.Pools[0].Type.OnDemand / 2 // the job's own limit goes first
	s.Pools[1].MaxPrice = 1
	plan := TierML{}.Plan(s)
	if len(plan.Acquire) != 1 || plan.Acquire[0].Bid != s.Pools[0].MaxPrice {
		t.Errorf("with a limit of %s: %+v", s.Pools[0].MaxPrice, plan.Acquire)
	}
}

// On the choice of machines: of all pools, the one with the highest MTTF at that bid.
func TestPaperPicksTheHighestMTTF(t *testing.T) {
	s := state(10, pool("xlarge", restless()...), pool("2xlarge", calm()...))
	plan := TierML{}.Plan(s)
	if len(plan.Acquire) != 1 || plan.Acquire[0].Pool != s.Pools[1].Pool || plan.Acquire[0].Count != 10 {
		t.Errorf("acquires %+v, want 10 of %s", plan.Acquire, s.Pools[1].Pool)
	}
	if plan.Considered[0].MTTF.Expected() >= plan.Considered[1].MTTF.Expected() {
		t.Errorf("the example is none: %+v", plan.Considered)
	}
}

// On bids, the aggressive ones: the price rounded up to the next dime for c4.2xlarge ($0.419 on demand) and to the next
// nickel for c4.xlarge ($0.209).
func TestPaperBidsAggressively(t *testing.T) {
	cents := func(n market.USD) market.USD { return n * market.Dollar / 100 }
	for _, c := range []struct{ onDemand, step, price, bid market.USD }{
		{cents(419) / 10, cents(10), cents(8), cents(10)},
		{cents(419) / 10, cents(10), cents(11), cents(20)},
		{cents(209) / 10, cents(5), cents(3), cents(5)},
		{cents(209) / 10, cents(5), cents(14), cents(15)},
	} {
		candidate := pool("xlarge")
		candidate.Type.OnDemand = c.onDemand
		got := BidAggressive.Bid(&candidate, c.price)
		if off := got - c.bid; off < -c.step/50 || off > c.step/50 { // 24 % is the paper's step to within 1 %
			t.Errorf("at %s, on demand %s: bids %s, the paper %s", c.price, c.onDemand, got, c.bid)
		}
	}
	candidate := pool("xlarge")
	if got := BidAggressive.Bid(&candidate, candidate.Type.OnDemand*99/100); got != candidate.Type.OnDemand {
		t.Errorf("near the on-demand price it bids %s", got)
	}
}

// onDemandPool returns a candidate that is bought on demand.
func onDemandPool(size string) Candidate {
	c := pool(size)
	c.Pool.Class, c.History = market.OnDemand, market.Constant(c.Type.OnDemand)
	return c
}

// On bids: while every spot pool is dearer than on demand, machines are bought on demand; when one is cheaper again, the
// job goes back.
func TestPaperBuysOnDemandWhileSpotIsDearer(t *testing.T) {
	s := state(10, onDemandPool("xlarge"), pool("xlarge", 0, 2.0))
	plan := TierML{}.Plan(s)
	if len(plan.Acquire) != 1 || plan.Acquire[0].Pool != s.Pools[0].Pool || plan.Acquire[0].Bid != 0 || plan.Acquire[0].Count != 10 {
		t.Fatalf("acquires %+v", plan.Acquire)
	}
	s.Held = []Allocation{{Pool: s.Pools[0].Pool, Count: 10, Launch: s.Now.Add(-time.Hour)}}
	if plan := (TierML{}).Plan(s); len(plan.Acquire)+len(plan.Release) != 0 {
		t.Errorf("spot is still dearer: %s", plan.Why)
	}
	s.Pools[1] = pool("xlarge", 0, 2.0, nowMinute-4, 0.2)
	if plan := (TierML{}).Plan(s); len(plan.Acquire)+len(plan.Release) != 0 {
		t.Errorf("spot has been cheaper for four minutes only: %s", plan.Why)
	}
	s.Pools[1] = pool("xlarge", 0, 2.0, nowMinute-5, 0.2)
	for _, p := range []TierML{{}, {NeverSwitch: true}} {
		plan := p.Plan(s)
		if plan.Switch == nil || plan.Switch.From != s.Pools[0].Pool || plan.Switch.To != s.Pools[1].Pool || len(plan.Release) != 1 {
			t.Errorf("%s: spot has been cheaper for five minutes: %s", p.Name(), plan.Why)
		}
	}
	s = state(10, onDemandPool("xlarge"), pool("xlarge", 0, 0.9))
	if plan := (TierML{}).Plan(s); len(plan.Acquire) != 1 || plan.Acquire[0].Pool != s.Pools[1].Pool {
		t.Errorf("spot is cheaper: %+v", plan.Acquire)
	}
}

// On bids: no spot machine is worth more than the on-demand price; without on-demand pools the job continues
// without.
func TestPaperNeverBuysAboveOnDemand(t *testing.T) {
	s := state(10, pool("xlarge", 0, 2.0), pool("2xlarge", 0, 1.01))
	plan := TierML{}.Plan(s)
	if len(plan.Acquire)+len(plan.Release) != 0 || plan.Why == "" {
		t.Errorf("acquires %+v, why %q", plan.Acquire, plan.Why)
	}
}

// On proactive switching: the job moves, before any eviction, once another pool's MTTF has been clearly higher for
// a while; the old machines are released when the new ones are there.
func TestPaperSwitchesProactively(t *testing.T) {
	s := switching()
	plan := TierML{}.Plan(s)
	if plan.Switch == nil || plan.Switch.From != s.Pools[0].Pool || plan.Switch.To != s.Pools[1].Pool || plan.Switch.Why == "" {
		t.Fatalf("no switch: %+v, why %q", plan.Switch, plan.Why)
	}
	if len(plan.Acquire) != 1 || plan.Acquire[0].Count != 10 || len(plan.Release) != 1 || plan.Release[0].Pool != s.Pools[0].Pool {
		t.Errorf("acquires %+v, releases %+v", plan.Acquire, plan.Release)
	}
	if plan := (TierML{NeverSwitch: true}).Plan(s); plan.Switch != nil || len(plan.Acquire)+len(plan.Release) != 0 {
		t.Errorf("tierml-noswitch switches: %+v", plan)
	}
}

// On bids: a bid cannot be changed once granted. So machines held at a low bid are judged by that bid, and
// no plan ever raises it.
func TestPaperKeepsGrantedBids(t *testing.T) {
	s := state(10, pool("xlarge", 0, 0.10, 30*60, 0.30, 31*60, 0.10), pool("2xlarge", 0, 0.10, 45*60, 1.5, 46*60, 0.10))
	s.Held = []Allocation{{Pool: s.Pools[0].Pool, Bid: s.Pools[0].Type.OnDemand, Count: 10, Launch: start}}
	if plan := (TierML{}).Plan(s); plan.Switch != nil {
		t.Fatalf("at the on-demand bid nothing is better: %s", plan.Switch.Why)
	}
	s.Pools[1].History = history("2xlarge", 0, 0.10)
	s.Held[0].Bid = market.USD(0.2 * float64(s.Held[0].Bid))
	plan := TierML{}.Plan(s)
	if plan.Switch == nil {
		t.Errorf("a pool whose low bid is often exceeded was kept: %s", plan.Why)
	}
	for _, a := range plan.Acquire {
		if a.Pool == s.Held[0].Pool {
			t.Errorf("bids again for what is held: %+v", a)
		}
	}
}

// On evictions: when machines are reclaimed, they are replaced from the best pool then.
func TestPaperReplacesLostMachines(t *testing.T) {
	s := state(10, pool("xlarge", calm()...), pool("2xlarge", restless()...))
	s.Held = []Allocation{
		{Pool: s.Pools[1].Pool, Bid: s.Pools[1].Type.OnDemand, Count: 6, Launch: s.Now.Add(-time.Hour), Warned: true},
		{Pool: s.Pools[1].Pool, Bid: s.Pools[1].Type.OnDemand, Count: 4, Launch: s.Now.Add(-time.Hour)},
	}
	plan := TierML{}.Plan(s)
	if len(plan.Acquire) != 1 || plan.Acquire[0].Pool != s.Pools[0].Pool || plan.Acquire[0].Count != 6 {
		t.Errorf("acquires %+v, want the 6 that are warned, of %s", plan.Acquire, s.Pools[0].Pool)
	}
}

// The policy that TierML is compared with (section 4): all machines of one type, in the market that is the cheapest at the
// start and at each restart, spot or on demand.
func TestPaperCheckpointTakesTheCheapestMarket(t *testing.T) {
	demand := pool("2xlarge")
	demand.Pool.Class, demand.History = market.OnDemand, market.Constant(demand.Type.OnDemand)
	s := state(0, demand, pool("2xlarge", 0, 0.4), pool("xlarge", 0, 0.3))
	s.Want = Want{VCPU: 64}
	plan := Checkpoint{}.Plan(s)
	if a := plan.Acquire; len(a) != 1 || a[0].Pool != s.Pools[2].Pool || a[0].Count != 16 || a[0].Bid != s.Pools[2].Type.OnDemand {
		t.Errorf("acquires %+v, want 16 of %s at its on-demand price", a, s.Pools[2].Pool)
	}
	s.Held = []Allocation{{Pool: s.Pools[1].Pool, Bid: demand.Type.OnDemand, Count: 8, Launch: start}}
	if plan := (Checkpoint{}).Plan(s); len(plan.Acquire)+len(plan.Release) != 0 {
		t.Errorf("it moves before it is evicted: %+v", plan)
	}
	s.Held[0].Warned = true
	s.Pools[1], s.Pools[2] = pool("2xlarge", 0, 1.1), pool("xlarge", 0, 1.2)
	if a := (Checkpoint{}).Plan(s).Acquire; len(a) != 1 || a[0].Pool != demand.Pool || a[0].Bid != 0 || a[0].Count != 8 {
		t.Errorf("while spot is dearer it acquires %+v, want 8 on demand", a)
	}
}

// A whole fleet on demand stays whatever prices do, so no price is a reason to ask; one on spot machines saves by the latest prices.
func TestCheckpointOnDemandIsSettled(t *testing.T) {
	demand := pool("2xlarge")
	demand.Pool.Class, demand.History = market.OnDemand, market.Constant(demand.Type.OnDemand)
	s := state(8, demand, pool("2xlarge", 0, 0.4, 600, 0.01))
	s.StepsOnly = true
	s.Held = []Allocation{{Pool: demand.Pool, Count: 8, Ready: 8, Launch: start}}
	until := Ask(Checkpoint{}, s).Settled
	if until.Sub(s.Now) < 100*time.Hour {
		t.Fatalf("settled until %s, at %s", until, s.Now)
	}
	for _, brief := range []bool{true, false} {
		later := s
		later.StepsOnly, later.Now = brief, start.Add(11*time.Hour)
		if plan := Ask(Checkpoint{}, later); plan.steps() {
			t.Errorf("settled until %s, and then: %+v", until, plan)
		}
	}
	s.Held[0].Pool, s.Held[0].Bid = s.Pools[1].Pool, demand.Type.OnDemand
	if plan := Ask(Checkpoint{}, s); !plan.Settled.IsZero() || plan.SaveEvery == 0 {
		t.Errorf("on spot machines: %+v", plan)
	}
}

// Flint (EuroSys 16, section 3) checkpoints every sqrt(2 x delta x MTTF): to first order, no interval is better.
func TestPaperFlintInterval(t *testing.T) {
	const save, mttf = 2 * time.Minute, 50 * time.Hour
	best := CheckpointInterval(save, mttf)
	lost := func(every time.Duration) float64 { // share of the time: checkpoints, and half an interval at each failure
		return float64(save)/float64(every) + float64(every)/2/float64(mttf)
	}
	for _, other := range []time.Duration{best * 99 / 100, best * 101 / 100} {
		if lost(other) < lost(best) {
			t.Errorf("an interval of %s costs less than %s", other, best)
		}
	}
	s := state(1, pool("xlarge", restless()...))
	s.Job.SaveTime = time.Minute
	often := Checkpoint{}.Plan(s).SaveEvery
	s.Pools[0] = pool("xlarge", calm()...)
	if seldom := (Checkpoint{}).Plan(s).SaveEvery; seldom <= often {
		t.Errorf("every %s in a calm pool, every %s in a restless one", seldom, often)
	}
}

// The tests below restate rules of BidBrain, the resource manager of Proteus (Harlap et al., EuroSys 2017), section 4.

// On free compute time: an hour in which the provider takes the machines back costs nothing, so a bid that is often exceeded late in the
// hour is worth more than a safe one.
func TestPaperBidsForFreeHours(t *testing.T) {
	rises := week("xlarge", func(_, third int) float64 { return 0.2 + 0.01*float64(third) }) // and falls at each full hour
	s := budgeted(t, rises)
	plan := CostPerWork{}.Plan(s)
	if len(plan.Acquire) != 1 {
		t.Fatal(plan.Why)
	}
	price, _ := s.Pools[0].History.At(s.Now)
	third := s.Pools[0].Type.OnDemand / 100
	if bid := plan.Acquire[0].Bid; bid < price || bid >= price+2*third {
		t.Errorf("bids %s at price %s, which rises by %s twice in each hour and then falls", bid, price, third)
	}
	// When an interrupted hour is paid, the safe bid is better.
	s.Job.Terms.FreeIncrement = false
	if plan := (CostPerWork{}).Plan(s); len(plan.Acquire) != 1 || plan.Acquire[0].Bid < price+2*third {
		t.Errorf("interrupted hours are paid, and it bids %+v; %s", plan.Acquire, plan.Why)
	}
}

// On the end of each paid hour: an allocation is kept if its next hour is worth its price, and given up otherwise; but not earlier, as the
// hour is paid.
func TestPaperDecidesAtTheEndOfThePaidHour(t *testing.T) {
	dear := func(from int) func(int, int) float64 {
		return func(hour, _ int) float64 {
			if hour >= from || hour%8 == 0 {
				return 0.85
			}
			return 0.15
		}
	}
	od := types["xlarge"].OnDemand
	for _, c := range []struct {
		ago      time.Duration
		from     int
		releases int
	}{
		{30 * time.Minute, 168, 0},                // dear, but the hour is paid
		{57*time.Minute + 40*time.Second, 168, 1}, // and now the next one would be dear
		{57*time.Minute + 40*time.Second, 999, 0}, // cheap: it stays
	} {
		s := budgeted(t, week("xlarge", dear(c.from)))
		if c.from == 999 {
			s.Now = s.Now.Add(time.Hour)
		}
		s = hold(s, c.ago, od)
		plan := CostPerWork{}.Plan(s)
		if len(plan.Release) != c.releases || len(plan.Acquire) != 0 {
			t.Errorf("%s after the launch, dear from hour %d: releases %+v, acquires %+v; %s", c.ago, c.from, plan.Release, plan.Acquire, plan.Why)
		}
		if c.releases == 0 && !plan.AskAgain.After(s.Now) {
			t.Errorf("%s after the launch: it wants to be asked again at %s", c.ago, plan.AskAgain)
		}
	}
}

// On cost per work: of two pools the one with the cheaper work, even if the other costs less per machine or keeps it longer; declared rates
// take precedence.
func TestPaperChoosesByCostPerWork(t *testing.T) {
	flat := func(share float64) func(int, int) float64 { return func(int, int) float64 { return share } }
	s := budgeted(t, week("2xlarge", flat(0.30)), week("xlarge", flat(0.31)))
	s.Want = Want{VCPU: 40}
	if plan := (CostPerWork{}).Plan(s); len(plan.Acquire) != 1 || plan.Acquire[0].Pool != s.Pools[0].Pool {
		t.Errorf("the larger costs less per vCPU: %+v; %s", plan.Acquire, plan.Why)
	}
	s.Pools[0].Type.Rate = 0.9 * float64(s.Pools[0].Type.VCPU)
	if plan := (CostPerWork{}).Plan(s); len(plan.Acquire) != 1 || plan.Acquire[0].Pool != s.Pools[1].Pool {
		t.Errorf("the larger does less work per vCPU: %+v; %s", plan.Acquire, plan.Why)
	}
}
