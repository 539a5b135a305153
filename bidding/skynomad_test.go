package bidding

import (
	"math"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

// regional returns a pool of one p3.2xlarge in a region, whose availability alternates at the listed hours since the start: available until
// the first, then not until the second.
func regional(t *testing.T, region string, share float64, up bool, hours ...float64) Candidate {
	t.Helper()
	kind := market.InstanceType{Name: "p3.2xlarge", VCPU: 8, OnDemand: market.Dollar}
	points := []market.AvailabilityPoint{{At: start.Add(-time.Hour)}}
	if up {
		points[0].Count = 1
	}
	for _, hour := range hours {
		points = append(points, market.AvailabilityPoint{At: start.Add(time.Duration(hour * float64(time.Hour))), Count: 1 - points[len(points)-1].Count})
	}
	a, err := market.NewAvailability(points, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return Candidate{Type: kind, Availability: a, History: market.Constant(market.USD(share * float64(market.Dollar))),
		Pool: market.Pool{Provider: "ec2", Region: region, Zone: region + "a", Type: kind.Name, Class: market.Spot}}
}

// nomad returns a job of 10 hours due in 15, some hours after its start, with an on-demand pool in us-east-1 and those given.
func nomad(t *testing.T, hours, done float64, pools ...Candidate) State {
	t.Helper()
	rules, err := market.Rules("gce-spot")
	if err != nil {
		t.Fatal(err)
	}
	demand := regional(t, "us-east-1", 1, true)
	demand.Pool.Class, demand.Availability = market.OnDemand, nil
	s := State{Now: start.Add(time.Duration(hours * float64(time.Hour))), Want: Want{Machines: 1}, Pools: append([]Candidate{demand}, pools...)}
	for i := range s.Pools {
		s.Pools[i].Availability = s.Pools[i].Availability.Until(s.Now)
	}
	s.Job = Job{Started: start, Deadline: start.Add(15 * time.Hour), Work: 80, Done: 8 * done, Saved: 8 * done, Startup: 12 * time.Minute,
		Terms: rules.Terms(), State: 10e9, Home: "us-east-1"}
	return sorted(s)
}

// holdingOne makes a state hold a candidate's machine.
func holdingOne(s State, region string) State {
	for _, c := range s.Pools {
		if c.Pool.Region == region && !c.OnDemand() {
			s.Held = []Allocation{{Pool: c.Pool, Bid: c.Type.OnDemand, Count: 1, Ready: 1, Launch: s.Now.Add(-time.Hour)}}
		}
	}
	return s
}

// goes returns the region and class that a plan buys; "" = nothing.
func goes(p Plan) string {
	if len(p.Acquire) == 0 {
		return ""
	}
	return p.Acquire[0].Pool.Region + " " + string(p.Acquire[0].Pool.Class)
}

// TestNelsonAalen (section 4.4): machines died at 1, 2 and 4 hours, and one was ended at 3: h(1) = 1/4, h(2) = 1/3, h(4) = 1/1.
func TestNelsonAalen(t *testing.T) {
	l := lives{{2, true}, {1, true}, {3, false}, {4, true}}
	for age, want := range map[float64]float64{0.9: 0, 1: 1. / 4, 2: 1./4 + 1./3, 3.9: 1./4 + 1./3, 4: 1./4 + 1./3 + 1} {
		if got := l.hazard(age); math.Abs(got-want) > 1e-12 {
			t.Errorf("H(%g) = %g, want %g", age, got, want)
		}
	}
	// Our addition: without any observation an hour is expected; and after ten hours without a death, eleven.
	if got := (lives)(nil).expected(0); got != 1 {
		t.Errorf("nothing seen: %g hours", got)
	}
	if got := (lives{{10, false}}).expected(10); got != 11 {
		t.Errorf("ten hours of one machine: %g more", got)
	}
	// γ* = 1: between deaths S is constant; beyond the last, four deaths in 11 hours.
	calm := lives{{4, true}, {4, false}, {4, false}}
	want := 4 + math.Exp(-calm.volatility()/3)*13/(2*calm.volatility())
	if got := calm.expected(0); math.Abs(got-want) > 1e-12 {
		t.Errorf("expected %g hours, want %g", got, want)
	}
}

// TestVolatility (section 4.4): recent deaths, sooner than the hazard says, shorten a pool's expected lifetime; recent long lives do not
// lengthen it.
func TestVolatility(t *testing.T) {
	var calm, storm lives
	for range 10 {
		calm = append(calm, life{10, true})
	}
	storm = append(storm, calm...)
	for range 5 {
		storm = append(storm, life{1, true})
	}
	if g := calm.volatility(); g != 1 {
		t.Errorf("as ever: γ* = %g", g)
	}
	if g := storm.volatility(); g < 2 {
		t.Errorf("five of late: γ* = %g", g)
	}
	after := append(append(lives{}, storm[10:]...), calm...) // the storm ended long ago
	if storm.expected(0) >= after.expected(0) {
		t.Errorf("in a storm %g hours, after it %g", storm.expected(0), after.expected(0))
	}
}

// TestProbes (section 4.3): a pool is probed each hour and now. From 0:30 to 1:30 it was gone, which one probe shows; at 2:15 for ten
// minutes, which none does; since 3:10 it is gone again, unknown at 3:50 without a decision then.
func TestProbes(t *testing.T) {
	s := nomad(t, 3, 0, regional(t, "us-west-2", 0.3, true, 0.5, 1.5, 2.25, 2.4))
	c := skyCourse{newCourse(s)}
	seen, age := c.watch(1)
	if len(seen) != 2 || seen[0] != (life{1, true}) || seen[1] != (life{1, false}) || age != 1 {
		t.Errorf("%v, %g hours old", seen, age)
	}
}

// TestProgressIsWorthMoreBehind (section 4.5): V = Cod at the start; the on-demand price when on schedule; more behind, less ahead.
func TestProgressIsWorthMoreBehind(t *testing.T) {
	for _, c := range []struct{ hours, done, want float64 }{
		{0, 0, 1}, {7.5, 5, 1}, {7.5, 2.5, 1.5}, {7.5, 7.5, 0.5},
	} {
		got := skyCourse{newCourse(nomad(t, c.hours, c.done, regional(t, "us-west-2", 0.3, true)))}.value()
		if math.Abs(got-c.want) > 1e-9 {
			t.Errorf("after %g hours with %g done: V = %g, want %g", c.hours, c.done, got, c.want)
		}
	}
}

// TestSkyNomadRules (sections 4.6 and 4.7): each rule of algorithm 1.
func TestSkyNomadRules(t *testing.T) {
	east := func(up bool, hours ...float64) Candidate { return regional(t, "us-east-1", 0.3, up, hours...) }
	west := func(share float64, up bool, hours ...float64) Candidate {
		return regional(t, "us-west-2", share, up, hours...)
	}
	heavy := func(s State) State { s.Job.State = 200e9; return s } // four hours on demand
	for name, c := range map[string]struct {
		s    State
		want string
	}{
		"at the start spot is taken":                       {nomad(t, 0, 0, east(true)), "us-east-1 spot"},
		"the cheaper region, though 20 cents are due":      {nomad(t, 4, 2, east(true), west(0.2, true)), "us-west-2 spot"},
		"not for what fetching costs":                      {heavy(nomad(t, 4, 2, east(true), west(0.2, true))), "us-east-1 spot"},
		"the region that lasts, at the same price":         {nomad(t, 6, 4, east(true, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5), west(0.3, true)), "us-west-2 spot"},
		"ahead, without spot, it waits":                    {nomad(t, 4, 3.5, east(true, 3.9)), ""},
		"far ahead it does not even buy spot":              {nomad(t, 5, 9, east(true)), ""},
		"behind, without spot, on demand":                  {nomad(t, 7, 3, east(true, 3.9)), "us-east-1 on-demand"},
		"safety net: before two changeovers are too many":  {nomad(t, 4.7, 0, east(true)), "us-east-1 on-demand"},
		"what is held stays, for a gain below Δ":           {holdingOne(nomad(t, 4, 3, east(true), west(0.27, true)), "us-east-1"), ""},
		"what is held is left for one clearly better":      {holdingOne(nomad(t, 4, 3, east(true), west(0.1, true)), "us-east-1"), "us-west-2 spot"},
		"unless fetching costs more":                       {heavy(holdingOne(nomad(t, 4, 3, east(true), west(0.1, true)), "us-east-1")), ""},
		"no machine that nobody probed to be up is bought": {nomad(t, 4, 3.5, east(true, 3.9), west(0.2, false)), ""},
	} {
		if got := goes(SkyNomad{}.Plan(c.s)); got != c.want {
			t.Errorf("%s: goes to %q, want %q: %s", name, got, c.want, SkyNomad{}.Plan(c.s).Why)
		}
	}
}
