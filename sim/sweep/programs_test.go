package sweep

import (
	"testing"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim"
)

// By kill and restart a job of programs buys on demand only where its max_price allows that, as its run does; training does in any case, in comparisons.
func TestProgramsKeepToTheirMaxPrice(t *testing.T) {
	pool := market.Pool{Provider: "ec2", Region: "us-west-1", Zone: "us-west-1a", Type: "c3.large", Class: market.Spot}
	cfg := sim.Config{Pools: []bidding.Candidate{{Pool: pool, Type: market.InstanceType{Name: "c3.large", VCPU: 2, OnDemand: market.Dollar}, MaxPrice: market.Dollar / 100}}}
	if got := withPolicy(cfg, bidding.Checkpoint{}); len(got.Pools) != 2 {
		t.Errorf("training has %+v", got.Pools)
	}
	cfg.Programs = &sim.Programs{Count: 1}
	if got := withPolicy(cfg, bidding.Checkpoint{}); len(got.Pools) != 1 {
		t.Errorf("a program has %+v", got.Pools)
	}
}
