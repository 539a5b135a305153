package sweep

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
)

// TestNoPolicyBeatsTheOracle: no finished run, from any start, costs less than the oracle says it must: of policies that
// bid what the job allows, the oracle that does so, too; of policies with a reliable tier, the one that may bid anything.
func TestNoPolicyBeatsTheOracle(t *testing.T) {
	for _, book := range []string{"ec2-2017", "ec2-now", "ec2-pay-bid"} {
		t.Run(book, func(t *testing.T) {
			job := demo(t)
			var err error
			if job.Rules, err = market.Rules(book); err != nil {
				t.Fatal(err)
			}
			rows, err := Run(context.Background(), Plan{
				Job: job, Policies: append(bidding.Names(), Oracle, OracleAnyBid), Hours: []time.Duration{2 * time.Hour, 8 * time.Hour},
				Starts: Starts{Count: 12, Seed: 7},
			}, func(int, int) {})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rows {
				if !r.OracleKnown {
					t.Fatalf("%s from %s: the oracle does not know", r.Policy, r.Start)
				}
				if r.Finished() && r.Cost < r.Oracle && !bidsLower(r.Policy) {
					t.Errorf("%s, %s of work from %s: $%s, and the oracle $%s", r.Policy, r.Compute, r.Start, r.Cost, r.Oracle)
				}
			}
			anyBid := map[[2]int64]market.USD{}
			for _, r := range rows {
				if r.Policy == OracleAnyBid {
					anyBid[[2]int64{r.Start.Unix(), int64(r.Compute)}] = r.Cost
				}
			}
			for _, r := range rows {
				if least := anyBid[[2]int64{r.Start.Unix(), int64(r.Compute)}]; r.Finished() && r.Cost < least && tiered(r.Policy) {
					t.Errorf("%s, %s of work from %s: $%s, at any bid the oracle $%s", r.Policy, r.Compute, r.Start, r.Cost, least)
				}
			}
			for _, s := range Summarize(rows) {
				t.Logf("%-22s %4.0f h: $%6.2f, oracle $%6.2f", s.Policy, s.ComputeHours, s.CostMean, *s.OracleCost)
			}
		})
	}
}

func bidsLower(policy string) bool {
	return policy == "cost-per-work" || strings.HasSuffix(policy, "-aggressive")
}

// tiered says whether runs by the policy have the job's reliable tier.
func tiered(policy string) bool {
	if IsOracle(policy) {
		return true
	}
	p, err := bidding.ByName(policy)
	if err != nil {
		panic(err)
	}
	_, byRestart := p.(bidding.ByRestart)
	return !byRestart && policy != "on-demand"
}
