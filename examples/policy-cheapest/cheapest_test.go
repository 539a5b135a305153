package cheapest

import (
	"reflect"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/tiers"
)

var start = time.Date(2014, 4, 1, 0, 0, 0, 0, time.UTC)

const cent = market.Dollar / 100

func pool(kind string, class market.Class) market.Pool {
	return market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: kind, Class: class}
}

// candidate returns a pool with prices in cents at hours since the start; the first has applied for ten days.
func candidate(kind string, vcpu int, hourCents ...int) bidding.Candidate {
	points := []market.PricePoint{{At: start.Add(-240 * time.Hour), Price: market.USD(hourCents[1]) * cent}}
	for i := 0; i+1 < len(hourCents); i += 2 {
		points = append(points, market.PricePoint{At: start.Add(time.Duration(hourCents[i]) * time.Hour), Price: market.USD(hourCents[i+1]) * cent})
	}
	return bidding.Candidate{Pool: pool(kind, market.Spot), History: market.NewHistory(points),
		Type: market.InstanceType{Name: kind, VCPU: vcpu, OnDemand: market.USD(6*vcpu) * cent}}
}

func TestPlan(t *testing.T) {
	s := bidding.State{Now: start, Want: bidding.Want{Machines: 4}, Pools: []bidding.Candidate{candidate("a", 4, 0, 6), candidate("b", 8, 0, 8)}}
	plan := Policy{}.Plan(s)
	if len(plan.Acquire) != 1 || plan.Acquire[0].Pool.Type != "b" || plan.Acquire[0].Count != 4 || plan.Acquire[0].Bid != 48*cent {
		t.Errorf("plan %+v", plan)
	}
	if len(plan.Considered) != 2 || plan.Considered[0].Chosen || !plan.Considered[1].Chosen {
		t.Errorf("considered %+v", plan.Considered)
	}
	if !reflect.DeepEqual(plan, Policy{}.Plan(s)) {
		t.Error("equal states must give equal plans")
	}
	s.Held = []bidding.Allocation{{Pool: plan.Acquire[0].Pool, Count: 3}, {Pool: plan.Acquire[0].Pool, Count: 1, Warned: true}}
	if again := (Policy{}).Plan(s); len(again.Acquire) != 1 || again.Acquire[0].Count != 1 {
		t.Errorf("in place of a warned machine: %+v", again.Acquire)
	}
	s.Want, s.Held = bidding.Want{VCPU: 20}, nil
	if vcpus := (Policy{}).Plan(s); vcpus.Acquire[0].Count != 3 {
		t.Errorf("for 20 vCPUs: %+v", vcpus.Acquire)
	}
}

// A complete job with this policy, in simulated time: it loses its machines when the price rises, and buys elsewhere.
func TestSimulatedRun(t *testing.T) {
	rules, err := market.Rules("ec2-2017")
	if err != nil {
		t.Fatal(err)
	}
	result, err := sim.Run(sim.Config{
		Name: "cheapest", Seed: 1, Start: start, Policy: Policy{}, Rules: rules, Want: bidding.Want{Machines: 4},
		Pools:    []bidding.Candidate{candidate("a", 4, 0, 4, 2, 90, 4, 4), candidate("b", 8, 0, 30)},
		Job:      sim.Workload{Clocks: 180, Splits: 16, Partitions: 4, Work: 3 * 3600 * 16 * 1000},
		Reliable: elasticity.Reliable{Pool: pool("a", market.OnDemand), Type: market.InstanceType{Name: "a", VCPU: 4, OnDemand: 24 * cent}, Count: 1},
		Stages:   tiers.Thresholds{TwoAbove: 1, ThreeAbove: 3}, FLOPSPerVCPU: 1000, Horizon: 48 * time.Hour,
	}.At(tempo.Remote(2 * time.Minute)))
	if err != nil {
		t.Fatal(err)
	}
	if !result.Finished() || result.Clocks != 180 || result.Evictions != 4 || result.Machines != 9 {
		t.Errorf("result %+v", result)
	}
}
