package bidding

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tierml/tierml/market"
)

var start = time.Date(2014, 3, 1, 0, 0, 0, 0, time.UTC)

var types = map[string]market.InstanceType{
	"xlarge":  {Name: "c3.xlarge", VCPU: 4, OnDemand: 239 * market.Dollar / 1000},
	"2xlarge": {Name: "c3.2xlarge", VCPU: 8, OnDemand: 478 * market.Dollar / 1000},
	"4xlarge": {Name: "c3.4xlarge", VCPU: 16, OnDemand: 956 * market.Dollar / 1000},
}

// pool returns a candidate with a history of (minute after start, price as a share of on-demand) pairs.
func pool(size string, pairs ...float64) Candidate {
	t := types[size]
	p := market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: t.Name, Class: market.Spot}
	return Candidate{Pool: p, Type: t, History: history(size, pairs...)}
}

func history(size string, pairs ...float64) *market.History {
	var points []market.PricePoint
	for i := 0; i < len(pairs); i += 2 {
		points = append(points, market.PricePoint{
			At:    start.Add(time.Duration(pairs[i] * float64(time.Minute))),
			Price: market.USD(pairs[i+1] * float64(types[size].OnDemand)),
		})
	}
	return market.NewHistory(points)
}

// nowMinute is two days after the start of the histories.
const nowMinute = 48 * 60

// calm crossed the on-demand price once, restless every two hours.
func calm() []float64 { return []float64{0, 0.1, 24 * 60, 1.5, 24*60 + 10, 0.1} }

func restless() []float64 { return append(crossing(2, 48), nowMinute, 0.1) }

// crossing returns a history until an hour that crossed the on-demand price at this interval.
func crossing(every, until float64) (pairs []float64) {
	for hour := 0.0; hour < until; hour += every {
		pairs = append(pairs, hour*60, 0.1, (hour+every)*60-10, 1.2)
	}
	return pairs
}

// state wants this many machines; pools come in any order.
func state(machines int, pools ...Candidate) State {
	return State{Now: start.Add(nowMinute * time.Minute), Want: Want{Machines: machines}, Pools: pools}
}

func candidateOf(s State, p market.Pool) Candidate {
	for _, c := range s.Pools {
		if c.Pool == p {
			return c
		}
	}
	panic("no candidate " + p.String())
}

// switching returns a state in which a switch is due: ten machines in a restless pool for an hour, another pool calm.
func switching() State {
	pairs := restless()
	s := state(10, pool("xlarge", pairs[:len(pairs)-4]...), pool("2xlarge", calm()...)) // below the bid since 46:00
	s.Held = []Allocation{{Pool: s.Pools[0].Pool, Bid: s.Pools[0].Type.OnDemand, Count: 10, Launch: s.Now.Add(-time.Hour)}}
	s.Pools[0].History = history("xlarge", append(pairs[:len(pairs)-4], 46*60, 0.1)...)
	return s
}

func TestNearTiesGoByPricePerVCPU(t *testing.T) {
	s := state(10, pool("xlarge", calm()...), pool("2xlarge", 0, 0.09, 24*60, 1.5, 24*60+10, 0.09))
	if plan := (TierML{}).Plan(s); plan.Acquire[0].Pool != s.Pools[1].Pool {
		t.Errorf("equal MTTF: bought %s, which costs more per vCPU", plan.Acquire[0].Pool)
	}
	s.Pools[1].History = history("2xlarge", 0, 0.11, 24*60, 1.5, 24*60+10, 0.11)
	if plan := (TierML{}).Plan(s); plan.Acquire[0].Pool != s.Pools[0].Pool {
		t.Errorf("equal MTTF: bought %s, which costs more per vCPU", plan.Acquire[0].Pool)
	}
	s.Pools[1] = pool("2xlarge", calm()...) // half the price per machine would be the same per vCPU
	if plan := (TierML{}).Plan(s); plan.Acquire[0].Pool != s.Pools[1].Pool {
		t.Errorf("equal MTTF and price: bought %s, which is later in order", plan.Acquire[0].Pool)
	}
}

func TestUnknownMTTFRanksLast(t *testing.T) {
	s := state(10, pool("2xlarge", nowMinute, 0.01), pool("xlarge", restless()...))
	plan := TierML{}.Plan(s)
	if plan.Acquire[0].Pool != s.Pools[1].Pool {
		t.Errorf("bought %s, of which nothing is known", plan.Acquire[0].Pool)
	}
	if !strings.Contains(plan.Considered[0].Why, "unknown") {
		t.Errorf("why not: %q", plan.Considered[0].Why)
	}
	s.Pools = s.Pools[:1]
	if plan := (TierML{}).Plan(s); len(plan.Acquire) != 1 || !strings.Contains(plan.Acquire[0].Why, "MTTF unknown") {
		t.Errorf("the only pool: %+v", plan.Acquire)
	}
}

func TestWhyNot(t *testing.T) {
	unpriced := pool("xlarge")
	free := pool("xlarge", calm()...)
	free.Type.OnDemand = 0
	refused := pool("xlarge", calm()...)
	refused.NoCapacityUntil = start.Add((nowMinute + 1) * time.Minute)
	shapeless := pool("xlarge", calm()...)
	shapeless.Type.VCPU = 0
	for _, c := range []struct {
		why  string
		pool Candidate
		want Want
	}{
		{"spot price unknown", unpriced, Want{Machines: 1}},
		{"on-demand price unknown", free, Want{Machines: 1}},
		{"above the bid", pool("xlarge", 0, 1.1), Want{Machines: 1}},
		{"no capacity", refused, Want{Machines: 1}},
		{"vCPUs of c3.xlarge unknown", shapeless, Want{VCPU: 1}},
	} {
		s := state(0, c.pool)
		s.Want = c.want
		plan := TierML{}.Plan(s)
		if len(plan.Acquire) != 0 || !strings.Contains(plan.Considered[0].Why, c.why) || !strings.Contains(plan.Why, c.why) {
			t.Errorf("want %q: %+v", c.why, plan)
		}
	}
}

func TestCounts(t *testing.T) {
	s := state(0, pool("4xlarge", calm()...))
	s.Want = Want{VCPU: 70}
	if plan := (TierML{}).Plan(s); plan.Acquire[0].Count != 5 || plan.Considered[0].Count != 5 {
		t.Errorf("70 vCPUs in machines of 16: %+v", plan.Acquire)
	}
	s.Held = []Allocation{{Pool: s.Pools[0].Pool, Count: 3, Launch: start}}
	if plan := (TierML{}).Plan(s); plan.Acquire[0].Count != 2 {
		t.Errorf("22 vCPUs are missing: %+v", plan.Acquire)
	}
	s.Held[0].Count = 5
	if plan := (TierML{}).Plan(s); len(plan.Acquire) != 0 {
		t.Errorf("nothing is missing: %+v", plan.Acquire)
	}
	s.Held[0].Draining = true
	if plan := (TierML{}).Plan(s); plan.Acquire[0].Count != 5 {
		t.Errorf("draining machines do not count: %+v", plan.Acquire)
	}
}

func TestTriesTheNextPoolWithoutCapacity(t *testing.T) {
	s := state(10, pool("2xlarge", restless()...), pool("xlarge", calm()...))
	s.Pools[1].NoCapacityUntil = s.Now.Add(time.Minute)
	if plan := (TierML{}).Plan(s); plan.Acquire[0].Pool != s.Pools[0].Pool {
		t.Errorf("bought %s, which has no capacity", plan.Acquire[0].Pool)
	}
	s.Pools[1].NoCapacityUntil = s.Now
	if plan := (TierML{}).Plan(s); plan.Acquire[0].Pool != s.Pools[1].Pool {
		t.Errorf("bought %s; the best may be tried again", plan.Acquire[0].Pool)
	}
}

// TestNoSwitch changes one aspect of a state in which a switch is due.
func TestNoSwitch(t *testing.T) {
	if plan := (TierML{}).Plan(switching()); plan.Switch == nil {
		t.Fatalf("no switch is due to begin with: %s", plan.Why)
	}
	target := func(s *State, every float64) {
		s.Pools[1].History = history("2xlarge", append(crossing(every, 44), 47*60, 0.1)...)
	}
	longer := switching()
	if target(&longer, 4); (TierML{}).Plan(longer).Switch == nil {
		t.Errorf("no switch to a pool that lasts twice as long: %s", TierML{}.Plan(longer).Why)
	}
	for name, change := range map[string]func(*State){
		"lasts little longer": func(s *State) { target(s, 2.7) },
		"no capacity":         func(s *State) { s.Pools[1].NoCapacityUntil = s.Now.Add(1) },
		"not affordable":      func(s *State) { s.Pools[1].MaxPrice = 1 },
		"too new":             func(s *State) { s.Held[0].Launch = s.Now.Add(-SwitchAfter + 1) },
		"draining": func(s *State) {
			s.Held = append(s.Held, Allocation{Pool: s.Pools[1].Pool, Count: 1, Launch: start, Draining: true})
		},
		"machines of the target on their way": func(s *State) {
			s.Held = append(s.Held, Allocation{Pool: s.Pools[1].Pool, Count: 10, Launch: s.Now.Add(-time.Minute)})
		},
		"some machines of the target on their way": func(s *State) {
			s.Held[0].Count = 8
			s.Held = append(s.Held, Allocation{Pool: s.Pools[1].Pool, Count: 2, Launch: s.Now.Add(-time.Minute)})
		},
		"the old machines not released yet": func(s *State) {
			s.Held = append(s.Held, Allocation{Pool: s.Pools[1].Pool, Count: 10, Launch: s.Now.Add(-time.Hour)})
		},
		"not long enough": func(s *State) { // the target only became affordable within the window
			if err := s.Pools[1].History.Append(market.PricePoint{At: s.Now.Add(-10 * time.Minute), Price: market.Dollar}); err != nil {
				panic(err)
			}
			if err := s.Pools[1].History.Append(market.PricePoint{At: s.Now.Add(-4 * time.Minute), Price: 1}); err != nil {
				panic(err)
			}
		},
		"a break in the window": func(s *State) {
			for _, minutes := range []time.Duration{3, 2} {
				price := market.USD(minutes-2) * market.Dollar // above the bid from minute -3 to -2
				if err := s.Pools[1].History.Append(market.PricePoint{At: s.Now.Add(-minutes * time.Minute), Price: price + 1}); err != nil {
					panic(err)
				}
			}
		},
		"the provider is about to take the machines": func(s *State) {
			if err := s.Pools[0].History.Append(market.PricePoint{At: s.Now, Price: market.Dollar}); err != nil {
				panic(err)
			}
		},
		"nothing else allowed": func(s *State) { s.Pools = s.Pools[:1] },
	} {
		s := switching()
		change(&s)
		if plan := (TierML{}).Plan(s); plan.Switch != nil || len(plan.Acquire)+len(plan.Release) != 0 {
			t.Errorf("%s: %+v", name, plan)
		}
	}
}

func TestOnDemandBuysNoSpot(t *testing.T) {
	s := state(10, pool("xlarge", calm()...))
	plan := OnDemand{}.Plan(s)
	if len(plan.Acquire)+len(plan.Release) != 0 || len(plan.Considered) != 1 || plan.Considered[0].Why == "" || plan.Why == "" {
		t.Errorf("%+v", plan)
	}
}

func TestByName(t *testing.T) {
	for _, name := range Names() {
		if p, err := ByName(name); err != nil || p.Name() != name {
			t.Errorf("ByName(%q): %v, %v", name, p, err)
		}
	}
	if _, err := ByName("cheapest"); err == nil || !strings.Contains(err.Error(), "capacity, checkpoint, checkpoint-aggressive, cost-per-work, deadline, on-demand, skynomad, tierml, tierml-aggressive, tierml-noswitch") {
		t.Errorf("unknown policy: %v; want the names that there are", err)
	}
}

// drawState draws pools with prices around the on-demand price, and machines held in some.
func drawState(t *rapid.T) State {
	var s State
	s.Now = start.Add(nowMinute * time.Minute)
	s.Want = rapid.SampledFrom([]Want{{Machines: 10}, {VCPU: 64}}).Draw(t, "want")
	for _, size := range []string{"2xlarge", "4xlarge", "xlarge"} {
		var pairs []float64
		for minute := 0; minute < nowMinute; minute += rapid.IntRange(1, 600).Draw(t, "step") {
			pairs = append(pairs, float64(minute), float64(rapid.IntRange(1, 72).Draw(t, "price"))/64)
		}
		c := pool(size, pairs...)
		c.MaxPrice = rapid.SampledFrom([]market.USD{0, c.Type.OnDemand / 2}).Draw(t, "limit")
		s.Pools = append(s.Pools, c)
		if n := rapid.IntRange(0, 12).Draw(t, "held"); n > 0 {
			s.Held = append(s.Held, Allocation{
				Pool: c.Pool, Bid: c.defaultBid(), Count: n,
				Launch: s.Now.Add(-time.Duration(rapid.IntRange(0, 100).Draw(t, "age")) * time.Minute),
				Warned: rapid.IntRange(0, 4).Draw(t, "warned") == 0,
			})
		}
	}
	return s
}

// transform returns the state with all prices multiplied and all times shifted.
func transform(s State, factor market.USD, shift time.Duration) State {
	other := s
	other.Now = s.Now.Add(shift)
	other.Pools = nil
	for _, c := range s.Pools {
		var points []market.PricePoint
		for _, p := range c.History.Points(time.Time{}, s.Now) {
			points = append(points, market.PricePoint{At: p.At.Add(shift), Price: p.Price * factor})
		}
		c.History = market.NewHistory(points)
		c.Type.OnDemand *= factor
		if c.OnDemand() {
			c.History = market.Constant(c.Type.OnDemand)
		}
		c.MaxPrice *= factor
		other.Pools = append(other.Pools, c)
	}
	other.Held = nil
	for _, a := range s.Held {
		a.Bid, a.Launch = a.Bid*factor, a.Launch.Add(shift)
		other.Held = append(other.Held, a)
	}
	return other
}

// choices returns a plan's actions, without prices and reasons.
func choices(p Plan) string {
	var b strings.Builder
	for _, a := range p.Acquire {
		fmt.Fprintf(&b, "acquire %d %s\n", a.Count, a.Pool)
	}
	for _, r := range p.Release {
		fmt.Fprintf(&b, "release %s\n", r.Pool)
	}
	if p.Switch != nil {
		fmt.Fprintf(&b, "switch %s %s %s %s\n", p.Switch.From, p.Switch.To, p.Switch.FromMTTF, p.Switch.ToMTTF)
	}
	return b.String()
}

// TestMetamorphic: doubled prices, a day's shift and a pool never chosen change no choice; equal states give equal
// plans; every step has its reason.
func TestMetamorphic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		plan := TierML{}.Plan(s)
		want := choices(plan)
		if diff := cmp.Diff(plan, TierML{}.Plan(s)); diff != "" {
			t.Fatalf("the same state again: %s", diff)
		}
		if got := choices(TierML{}.Plan(transform(s, 2, 0))); got != want {
			t.Fatalf("prices doubled: %s was %s", got, want)
		}
		if diff := cmp.Diff(plan, TierML{}.Plan(transform(s, 1, 24*time.Hour))); diff != "" {
			t.Fatalf("a day later: %s", diff)
		}
		extra := s
		extra.Pools = append(append([]Candidate(nil), s.Pools...), pool("xlarge", 0, 3.0))
		extra.Pools[3].Pool.Zone = "us-west-1c"
		more := TierML{}.Plan(extra)
		more.Considered = more.Considered[:3]
		if diff := cmp.Diff(plan, more, cmpopts.IgnoreFields(Plan{}, "Why")); diff != "" {
			t.Fatalf("with a pool that is never chosen: %s", diff)
		}
		checkPlan(t, s, plan)
	})
}

// checkPlan checks properties of every plan.
func checkPlan(t *rapid.T, s State, plan Plan) {
	if len(plan.Considered) != len(s.Pools) || plan.Why == "" {
		t.Fatalf("%d pools considered of %d, why %q", len(plan.Considered), len(s.Pools), plan.Why)
	}
	for i, c := range plan.Considered {
		if c.Pool != s.Pools[i].Pool || c.Why == "" {
			t.Fatalf("considered %d: %+v", i, c)
		}
	}
	if len(plan.Acquire) > 1 || (plan.Switch != nil) != (len(plan.Release) == 1) {
		t.Fatalf("steps do not go together: %+v", plan)
	}
	held := fleetOf(s).total()
	for _, a := range plan.Acquire {
		c := candidateOf(s, a.Pool)
		price, known := c.History.At(s.Now)
		if !known || price > a.Bid || a.Bid > c.Type.OnDemand || a.Count <= 0 || a.Why == "" {
			t.Fatalf("acquires %+v at price %s", a, price)
		}
		held += units(a.Count) * s.Want.each(c.Type)
	}
	if len(plan.Acquire) == 1 && held < s.Want.total() {
		t.Fatalf("acquires too little: %+v", plan)
	}
}

func BenchmarkPlan(b *testing.B) {
	s := State{Want: Want{Machines: 128}}
	for n, size := range []string{"2xlarge", "4xlarge", "xlarge"} {
		var pairs []float64
		for i := range 4000 {
			pairs = append(pairs, float64(4*i), float64(1+(i+n)*7919%40)/39)
		}
		s.Pools = append(s.Pools, pool(size, pairs...))
	}
	s.Now = start.Add(4 * 4000 * time.Minute)
	for i := range 128 {
		s.Held = append(s.Held, Allocation{Pool: s.Pools[0].Pool, Count: 1, Launch: start.Add(time.Duration(i) * time.Minute)})
	}
	for b.Loop() {
		if plan := (TierML{}).Plan(s); len(plan.Considered) != 3 {
			b.Fatal("nothing considered")
		}
	}
}

// TestBriefPlans: a brief plan has the same steps; only words are missing.
func TestBriefPlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		p := TierML{NeverSwitch: rapid.Bool().Draw(t, "never switch")}
		full := p.Plan(s)
		s.StepsOnly = true
		brief := p.Plan(s)
		if diff := cmp.Diff(full.Acquire, brief.Acquire); diff != "" {
			t.Errorf("acquired (-full +brief):\n%s", diff)
		}
		if diff := cmp.Diff(full.Release, brief.Release); diff != "" {
			t.Errorf("released (-full +brief):\n%s", diff)
		}
		if diff := cmp.Diff(full.Switch, brief.Switch); diff != "" {
			t.Errorf("switch (-full +brief):\n%s", diff)
		}
	})
}
