package planner

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
)

// Where no bids are taken, a plan names none: neither as text nor as JSON, nor in the policy's reasons; and it does not
// pass the time until a price moves for the time that machines stay.
func TestNoBids(t *testing.T) {
	in := calm(t)
	other := in.Pools[0]
	other.Pool.Type, other.Type.OnDemand = "n2-standard-4", in.Pools[0].Type.OnDemand
	in.Pools = append(in.Pools, other)
	for i := range in.Pools {
		in.Pools[i].Pool.Provider, in.Pools[i].MaxPrice = "gce", 0
	}
	dear := in.Pools[0]
	dear.Pool.Zone, dear.History = "us-central1-f", market.NewHistory([]market.PricePoint{{At: in.Now.Add(-30 * 24 * time.Hour), Price: 100 * market.Dollar}})
	in.Pools = append(in.Pools, dear)
	for _, policy := range []bidding.Policy{bidding.TierML{}, bidding.CostPerWork{}, bidding.Capacity{}} {
		in.Policy = policy
		p := plan(t, in)
		var text bytes.Buffer
		if err := p.WriteText(&text, Style{}); err != nil {
			t.Fatal(err)
		}
		details, err := json.Marshal(p.Details())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{text.String(), string(details)} {
			rest := strings.ReplaceAll(strings.ToLower(s), "no bids are taken", "")
			if strings.Contains(rest, "bid") || strings.Contains(s, "14d0h") {
				t.Errorf("%s: %s", policy.Name(), s)
			}
		}
		if !strings.Contains(text.String(), "n2-standard-4") {
			t.Errorf("%s names no pools:\n%s", policy.Name(), &text)
		}
	}
}
