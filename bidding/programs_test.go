package bidding

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

// Programs run under the policies without a reliable tier. On demand that is a fleet of the cheapest on-demand type, however cheap spot
// machines are.
func TestPoliciesForPrograms(t *testing.T) {
	want := []string{"capacity", "checkpoint", "checkpoint-aggressive", "cost-per-work", "deadline", "on-demand", "skynomad", "uniform-progress"}
	if got := NamesForPrograms(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if _, err := ForPrograms("tierml"); err == nil || !strings.Contains(err.Error(), "needs reliable machines") {
		t.Errorf("tierml: %v", err)
	}
	if _, err := ForPrograms("checkpont"); err == nil || !strings.Contains(err.Error(), "did you mean checkpoint") {
		t.Errorf("a misspelt name: %v", err)
	}
	at := time.Date(2014, 4, 1, 0, 0, 0, 0, time.UTC)
	candidate := func(name string, class market.Class, price market.USD) Candidate {
		return Candidate{Pool: market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: name, Class: class},
			Type: market.InstanceType{Name: name, VCPU: 4, OnDemand: 24 * market.Dollar / 100}, History: market.NewHistory([]market.PricePoint{{At: at.Add(-time.Hour), Price: price}})}
	}
	s := State{Now: at, Want: Want{Machines: 2}, Pools: []Candidate{
		candidate("a", market.OnDemand, 24*market.Dollar/100), candidate("a", market.Spot, market.Dollar/100)}}
	for name, pool := range map[string]market.Pool{"on-demand": s.Pools[0].Pool, "checkpoint": s.Pools[1].Pool} {
		p, err := ForPrograms(name)
		if err != nil || p.Name() != name {
			t.Fatalf("%s: %v", name, err)
		}
		plan := Ask(p, s)
		if len(plan.Acquire) != 1 || plan.Acquire[0].Pool != pool || plan.Acquire[0].Count != 2 {
			t.Errorf("%s buys %+v", name, plan.Acquire)
		}
		if name == "on-demand" && plan.Considered[1].Why != "policy on-demand buys no spot machines" {
			t.Errorf("%+v", plan.Considered[1])
		}
	}
	if s.Pools[1].NoCapacityUntil != (time.Time{}) {
		t.Error("the state was changed")
	}
}

// Work that machines keep themselves is bought by its remainder. Spot machines at a third of the price are not worth it if an eviction
// undoes more than they save: one machine may risk losing all of a short program, but not a gang in which each of eight may stop all.
func TestWorkLostToEvictionsIsCounted(t *testing.T) {
	rules, err := market.Rules("ec2-now")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	candidate := func(class market.Class, cents market.USD) Candidate {
		return Candidate{Pool: market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: "a", Class: class},
			Type: market.InstanceType{Name: "a", VCPU: 4, OnDemand: 30 * market.Dollar / 100}, History: market.Constant(cents * market.Dollar / 100)}
	}
	state := func(machines int, undone time.Duration, together bool) State {
		s := State{Now: at, Want: Want{Machines: machines}, Pools: []Candidate{candidate(market.OnDemand, 30), candidate(market.Spot, 10)}}
		s.Pools[1].Hints.Lifetimes = market.Lifetimes{Evicted: 100, Watched: 400 * time.Hour} // one in four hours
		s.Job = Job{Started: at, Work: float64(100 * machines), Startup: 5 * time.Minute, Notice: 2 * time.Minute, Undone: undone, Together: together, Terms: rules.Terms()}
		return s
	}
	for _, c := range []struct {
		what     string
		machines int
		undone   time.Duration
		together bool
		class    market.Class
	}{
		{"all is saved", 8, 0, false, market.Spot},
		{"an hour is lost", 1, time.Hour, false, market.Spot},
		{"an hour of each of eight is lost apart", 8, time.Hour, false, market.Spot},
		{"an hour of all eight is lost together", 8, time.Hour, true, market.OnDemand},
		{"a day is lost", 1, 24 * time.Hour, false, market.OnDemand},
	} {
		for _, p := range []Policy{RolledBack{Capacity{}}, RolledBack{CostPerWork{}}} {
			plan := Ask(p, state(c.machines, c.undone, c.together))
			if len(plan.Acquire) != 1 || plan.Acquire[0].Pool.Class != c.class || plan.Acquire[0].Count != c.machines {
				t.Errorf("%s, %s: %+v, %s", p.Name(), c.what, plan.Acquire, plan.Why)
			}
		}
	}
	// A gang is bought completely or not at all; tasks are bought as far as machines are available.
	for together, want := range map[bool]int{false: 3, true: 0} {
		s := state(8, 0, together)
		s.Pools = s.Pools[1:]
		few, err := market.NewAvailability([]market.AvailabilityPoint{{At: at.Add(-time.Hour), Count: 3}}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		s.Pools[0].Availability = few
		got := 0
		for _, a := range Ask(RolledBack{Capacity{}}, s).Acquire {
			got += a.Count
		}
		if got != want {
			t.Errorf("together %v: %d are bought where there are 3 of 8", together, got)
		}
	}
}
