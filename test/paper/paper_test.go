package main

import (
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim/sweep"
)

func TestCrossings(t *testing.T) {
	at := time.Date(2016, 3, 1, 0, 0, 0, 0, time.UTC)
	var points []market.PricePoint
	for i, price := range []market.USD{5, 1, 2, 3, 1, 3, 4, 2} {
		points = append(points, market.PricePoint{At: at.Add(time.Duration(i) * time.Hour), Price: price})
	}
	if got := crossings(market.NewHistory(points), 2); got != 2 {
		t.Errorf("%d crossings, want 2: beginning above is none", got)
	}
}

// TestReport: savings and times are those of the summaries.
func TestReport(t *testing.T) {
	summaries := map[string]sweep.Summary{}
	for policy, cost := range map[string]float64{"on-demand": 110, "checkpoint": 50, "checkpoint-aggressive": 50, "tierml": 25,
		"tierml-aggressive": 30, "tierml-noswitch": 50, "cost-per-work": 20, "oracle": 10} {
		summaries[policy] = sweep.Summary{Policy: policy, CostMean: cost, CostP95: 2 * cost, OnDemandCost: 100, RuntimeMean: 5}
	}
	var results []result
	for _, hours := range lengths {
		r := result{hours: hours, starts: 3, crossings: 12, policies: summaries}
		r.cell.pools = make([]bidding.Candidate, 2)
		results = append(results, r)
	}
	var b strings.Builder
	if err := report(&b, results, "3"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| all | 4 | 1 | 75 % | 50 % | +25 % | +25 % | 50 % | 0 % |", // figure 12
		"| restless | 4 | -50.0 % | +0.0 % |",                        // section 4.6
		"| 12 | 4 | 100.00 | 50.00 | 25.00 | 20.00 | -20.0 % | 10.00 | 89 % |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}
