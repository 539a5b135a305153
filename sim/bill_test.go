package sim

import (
	"math/big"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// What 32 c5.xlarge with disks of 16 GiB and public addresses cost is, to the cent, what their lifetimes, the price list and a calculator
// give: in the plan, which keeps no journal, and in the report of a journal.
func TestBillOf32MachinesToTheCent(t *testing.T) {
	rules, err := market.Rules("ec2-now+disk=16x0.08+address=0.005")
	if err != nil {
		t.Fatal(err)
	}
	kind := market.InstanceType{Name: "c5.xlarge", VCPU: 4, OnDemand: 17 * cent}
	onDemand := market.Pool{Provider: "ec2", Region: "us-east-1", Zone: "us-east-1a", Type: kind.Name, Class: market.OnDemand}
	spot := onDemand
	spot.Class = market.Spot
	const spotPrice = 6_810 // hundred-thousandths of a dollar
	cfg := scenario(t, bidding.Candidate{Pool: spot, Type: kind, History: market.NewHistory([]market.PricePoint{
		{At: start.Add(-240 * time.Hour), Price: spotPrice * market.Dollar / 100_000}, {At: start.Add(100 * time.Hour), Price: market.Dollar},
	})})
	cfg.Rules, cfg.Want = rules, bidding.Want{Machines: 32}
	cfg.Reliable = elasticity.Reliable{Pool: onDemand, Type: kind, Count: 1}
	cfg.Job.Splits, cfg.Job.Work = 256, 20*3600*32*4*1000
	planned, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, entries := run(t, cfg)
	var ledger cost.Ledger
	launched, sum, machines := map[string]journal.Entry{}, new(big.Rat), 0
	for _, e := range entries {
		if err := ledger.Add(e); err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Kind == journal.Launch:
			launched[e.Instance] = e
		case e.Ended != nil && launched[e.Instance].Launched != nil:
			price := big.NewRat(spotPrice, 100_000)
			if launched[e.Instance].Tier == "reliable" {
				price = big.NewRat(17, 100)
			}
			beside := new(big.Rat).Add(big.NewRat(16*8, 100*730), big.NewRat(5, 1000))
			hours := big.NewRat(int64(e.Ended.Sub(*launched[e.Instance].Launched)/time.Second), 3600)
			sum.Add(sum, hours.Mul(hours, price.Add(price, beside)))
			machines++
			delete(launched, e.Instance)
		}
	}
	report, err := ledger.Report(ledger.AsOf())
	if err != nil {
		t.Fatal(err)
	}
	want, _ := sum.Float64()
	if machines != 33 || !r.Finished() {
		t.Fatalf("%d machines, %+v", machines, r)
	}
	for what, usd := range map[string]market.USD{"plan": planned.Cost, "run": r.Cost, "report": report.Totals.Total} {
		if got := float64(usd) / float64(market.Dollar); got < want-.005 || got > want+.005 {
			t.Errorf("the %s has $%.4f, a calculator $%.4f", what, got, want)
		}
	}
	t.Logf("$%.4f", want)
}
