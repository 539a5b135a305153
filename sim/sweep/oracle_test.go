package sweep

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
)

// TestNoPolicyBeatsTheOracle: no finished run, from any start, costs less than the oracle's bound: neither the one for its own policy, nor
// the row "oracle", which bounds all.
func TestNoPolicyBeatsTheOracle(t *testing.T) {
	for _, book := range []string{"ec2-2017", "ec2-now", "ec2-pay-bid"} {
		t.Run(book, func(t *testing.T) {
			job := demo(t)
			var err error
			if job.Rules, err = market.Rules(book); err != nil {
				t.Fatal(err)
			}
			rows, err := Run(context.Background(), Experiment{
				Job: job, Policies: append(bidding.Names(), Oracle, OracleAnyBid), Hours: []time.Duration{2 * time.Hour, 8 * time.Hour},
				Starts: Starts{Count: 8, Seed: 7},
			}, func(int, int) {})
			if err != nil {
				t.Fatal(err)
			}
			type run struct {
				start   int64
				compute time.Duration
			}
			least := map[run]market.USD{}
			for _, r := range rows {
				if !r.OracleKnown {
					t.Fatalf("%s from %s: the oracle does not know", r.Policy, r.Start)
				}
				if r.Policy == Oracle {
					least[run{r.Start.Unix(), r.Compute}] = r.Cost
				}
			}
			for _, r := range rows {
				all := least[run{r.Start.Unix(), r.Compute}]
				if all > r.Oracle || r.Finished() && r.Cost < r.Oracle {
					t.Errorf("%s, %s of work from %s: $%s; its oracle $%s, that of all $%s", r.Policy, r.Compute, r.Start, r.Cost, r.Oracle, all)
				}
			}
			for _, s := range Summarize(rows) {
				t.Logf("%-22s %4.0f h: $%6.2f, oracle $%6.2f", s.Policy, s.ComputeHours, s.CostMean, *s.OracleCost)
			}
		})
	}
}

// TestFreedom: the oracle of a comparison may do what any of the policies may.
func TestFreedom(t *testing.T) {
	for _, c := range []struct {
		policies []string
		want     []oracleKind
		freedom  string
	}{
		{[]string{Oracle}, []oracleKind{{tiered: true}}, ""},
		{[]string{"tierml", "tierml-noswitch", Oracle}, []oracleKind{{tiered: true}}, ""},
		{[]string{"tierml", "cost-per-work", Oracle}, []oracleKind{{tiered: true}, {tiered: true, lowerBids: true, atEnds: true}},
			"bid less than on demand, as cost-per-work may"},
		{[]string{"checkpoint-aggressive", Oracle}, []oracleKind{{lowerBids: true}},
			"go without reliable machines, as checkpoint-aggressive must; bid less than on demand, as checkpoint-aggressive may"},
		{[]string{"on-demand", "deadline", Oracle}, []oracleKind{{}}, "go without reliable machines, as on-demand, deadline must"},
	} {
		p := Experiment{Policies: c.policies}
		got, err := p.sights(Oracle)
		if err != nil || !slices.Equal(got, c.want) || p.Freedom(Oracle) != c.freedom {
			t.Errorf("%v: %v, %q (%v); want %v, %q", c.policies, got, p.Freedom(Oracle), err, c.want, c.freedom)
		}
	}
}

// TestOracleRegretsNothing: rounding included.
func TestOracleRegretsNothing(t *testing.T) {
	var rows []Row
	for i := range 7 {
		cost := market.USD(142_857_143*i + 123_456_789)
		rows = append(rows, Row{Policy: Oracle, Oracle: cost, OracleKnown: true})
		rows[i].Cost, rows[i].Start, rows[i].Outcome = cost, time.Unix(int64(i), 0), "finished"
	}
	if s := Summarize(rows)[0]; s.Regret == nil || *s.Regret != 0 || math.Signbit(*s.Regret) {
		t.Errorf("regret %v", s.Regret)
	}
}

// TestOracleThatKnowsNothing: if machines are lost for reasons other than price, no start of the oracle counts as finished.
func TestOracleThatKnowsNothing(t *testing.T) {
	b := block{starts: make([]time.Time, 1), bounds: []*bounds{{costs: make([]market.USD, 1), known: make([]bool, 1)}}}
	rows := []Row{{Policy: Oracle}}
	rows[0].Outcome = "finished"
	b.compare(rows)
	if s := Summarize(rows)[0]; s.Finished != 0 || s.OracleCost != nil || rows[0].Outcome != "unknown" {
		t.Errorf("%+v", s)
	}
}
