package bidding

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

// Programs are run by the policies without a reliable tier. On demand that is a fleet of the cheapest type on demand, however cheap spot
// machines are.
func TestPoliciesForPrograms(t *testing.T) {
	want := []string{"checkpoint", "checkpoint-aggressive", "deadline", "on-demand", "uniform-progress"}
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
