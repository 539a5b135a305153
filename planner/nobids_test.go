package planner

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// If bids are not taken, a plan mentions none: neither as text nor as JSON, nor in the policy's reasons; and it does not present the time
// until a price moves as the time that machines stay.
func TestNoBids(t *testing.T) {
	in := calm(t)
	rules, err := market.Rules("gce-spot")
	if err != nil {
		t.Fatal(err)
	}
	in.Rules = rules
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
			rest := strings.ReplaceAll(strings.ToLower(s), "without bids", "")
			if strings.Contains(rest, "bid") || strings.Contains(s, "14d0h") {
				t.Errorf("%s: %s", policy.Name(), s)
			}
		}
		if !strings.Contains(text.String(), "n2-standard-4") {
			t.Errorf("%s names no pools:\n%s", policy.Name(), &text)
		}
	}
}

// A provider's information about a pool's capacity is in the plan line unchanged, and if there are no bids the derived time to an eviction
// is shown.
func TestHintsInThePlan(t *testing.T) {
	in := calm(t)
	in.Policy = bidding.Capacity{}
	in.Sources, in.Pools[0].Pool.Provider = []string{"Spot prices: a list."}, "gce"
	told := func(v float64) bidding.Hint { return bidding.Hint{Value: v, At: in.Now} }
	in.Pools[0].Hints = bidding.Hints{Uptime: told(1.0 / 6), Placement: told(7)}
	p := plan(t, in)
	d := p.Details()
	got := d.Pools[0].Hints
	if got == nil || got.Interrupted != nil || *got.Placement != (journal.PoolHint{Value: 7, At: in.Now}) || *got.Uptime != (journal.PoolHint{Value: 1.0 / 6, At: in.Now}) {
		t.Errorf("hints %+v", got)
	}
	if mttf := d.Pools[0].MTTF; math.Abs(mttf-3600/math.Ln2) > 1 || d.Sources[0] != "Spot prices: a list." {
		t.Errorf("MTTF %v s, sources %q", mttf, d.Sources)
	}
	var text strings.Builder
	if err := p.WriteText(&text, Style{}); err != nil || !strings.Contains(text.String(), " 1h27m") ||
		!strings.Contains(text.String(), "Prices are in US dollars per machine and hour.\n  Spot prices: a list.\n") {
		t.Errorf("%v\n%s", err, &text)
	}
	in.Pools[0].Hints = bidding.Hints{}
	if d := plan(t, in).Details(); d.Pools[0].Hints != nil {
		t.Errorf("hints of nobody: %+v", d.Pools[0].Hints)
	}
}

// The plan warns of what the market does not allow along with what the estimate cannot meet.
func TestWarningsOfTheMarket(t *testing.T) {
	in := calm(t)
	in.Warnings = []string{"the quota is small"}
	if p := plan(t, in); len(p.Warnings) != 1 || p.Warnings[0] != "the quota is small" {
		t.Errorf("%q", p.Warnings)
	}
}
