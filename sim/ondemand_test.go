package sim

import (
	"testing"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// onDemand returns the same machines as a candidate's, bought on demand.
func onDemand(c bidding.Candidate) bidding.Candidate {
	c.Pool.Class, c.History = market.OnDemand, market.Constant(c.Type.OnDemand)
	return c
}

// TestOnDemandWhileSpotIsDearer: on-demand machines replace those that the market takes, work as transient ones, and leave at the end of
// their paid hour once spot machines are back.
func TestOnDemandWhileSpotIsDearer(t *testing.T) {
	long := func(pools ...bidding.Candidate) Config { // longer than what is paid on demand
		cfg := scenario(t, pools...)
		cfg.Job.Work *= 2
		return cfg
	}
	alone, _ := run(t, long(crossing()))
	r, entries := run(t, long(crossing(), onDemand(a())))
	if !r.Finished() || r.Evictions != 4 || r.Switches != 1 || r.Clocks != 180 {
		t.Fatalf("%+v", r)
	}
	if r.Runtime >= alone.Runtime {
		t.Errorf("with on-demand machines it took %s, without %s", r.Runtime, alone.Runtime)
	}
	bought, ended := map[string]bool{}, 0
	var charged market.USD
	for _, e := range entries {
		demand := e.Pool == onDemand(a()).Pool.String()
		switch {
		case e.Kind == journal.Launch && demand && e.Tier == "transient":
			bought[e.Instance] = true
			if e.Bid != "" {
				t.Errorf("a bid of %s for an on-demand machine", e.Bid)
			}
		case e.Kind == journal.Price && demand:
			t.Errorf("the price of on-demand machines in the journal: %+v", e)
		case e.Kind == journal.Terminated && bought[e.Instance]:
			ended++
		case e.Kind == journal.Charge:
			usd, err := market.ParseUSD(e.USD)
			if err != nil {
				t.Fatal(err)
			}
			charged += usd
		}
	}
	if len(bought) != 4 || ended != 4 {
		t.Errorf("%d bought on demand and %d released; want 4 and 4", len(bought), ended)
	}
	if charged != r.Cost {
		t.Errorf("the journal's charges come to %s, the ledger to %s", charged, r.Cost)
	}
}
