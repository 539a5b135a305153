package bidding

import (
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

// TierML (CMU-PDL-16-102), footnote 7: where no reliable machine is available, the most reliable available serves.
func TestMostReliable(t *testing.T) {
	now := time.Date(2014, 5, 1, 0, 0, 0, 0, time.UTC)
	kind := func(name string) market.InstanceType {
		return market.InstanceType{Name: name, VCPU: 4, OnDemand: market.Dollar}
	}
	pool := func(name string, class market.Class) market.Pool {
		return market.Pool{Provider: "ec2", Region: "r", Zone: "ra", Type: name, Class: class}
	}
	// Above the on-demand price once per period.
	spikes := func(every time.Duration) *market.History {
		var points []market.PricePoint
		for at := now.Add(-14 * 24 * time.Hour); at.Before(now.Add(-every)); at = at.Add(every) {
			points = append(points, market.PricePoint{At: at, Price: 2 * market.Dollar}, market.PricePoint{At: at.Add(time.Minute), Price: market.Dollar / 10})
		}
		return market.NewHistory(points)
	}
	often := Candidate{Pool: pool("often", market.Spot), Type: kind("often"), History: spikes(3 * time.Hour)}
	seldom := Candidate{Pool: pool("seldom", market.Spot), Type: kind("seldom"), History: spikes(30 * time.Hour)}
	dear := Candidate{Pool: pool("dear", market.Spot), Type: kind("dear"), History: market.Constant(3 * market.Dollar)}
	demand := Candidate{Pool: pool("demand", market.OnDemand), Type: kind("demand"), History: market.Constant(market.Dollar)}
	none := seldom
	none.NoCapacityUntil = now.Add(time.Hour)
	for _, c := range []struct {
		name          string
		pools         []Candidate
		onDemandFirst bool
		want          string
	}{
		{"the highest MTTF", []Candidate{dear, often, seldom}, true, "seldom"},
		{"on demand before spot", []Candidate{demand, often, seldom}, true, "demand"},
		{"after it where the job wants a spot machine", []Candidate{demand, often, seldom}, false, "seldom"},
		{"of which there is none", []Candidate{demand, dear, none}, false, "demand"},
		{"what sells none is left out", []Candidate{often, none}, true, "often"},
		{"what is above the bid, too", []Candidate{dear}, true, ""},
	} {
		got, found := MostReliable(State{Now: now, Pools: c.pools, Want: Want{Machines: 3}}, c.onDemandFirst)
		if got.Pool.Type != c.want || found != (c.want != "") {
			t.Errorf("%s: %s, want %q", c.name, got.Pool, c.want)
		}
		if found && (!strings.Contains(got.Why, "no reliable machine is available") || got.Bid != market.Dollar) && got.Pool.Class == market.Spot {
			t.Errorf("%s: at $%s, as %q", c.name, got.Bid, got.Why)
		}
	}
	s := State{Now: now, Pools: []Candidate{demand, often, seldom}, Want: Want{Machines: 3}, Held: []Allocation{{Pool: demand.Pool, Count: 3, Ready: 3}}}
	if got, _ := MostReliable(s, false); got.Pool != demand.Pool {
		t.Errorf("a fleet on demand waits for %s", got.Pool)
	}
}
