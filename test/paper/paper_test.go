package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim/sweep"
)

var began = time.Date(2016, 3, 1, 0, 0, 0, 0, time.UTC)

// hourly is a history of one price an hour.
func hourly(prices ...market.USD) *market.History {
	var points []market.PricePoint
	for i, price := range prices {
		points = append(points, market.PricePoint{At: began.Add(time.Duration(i) * time.Hour), Price: price})
	}
	return market.NewHistory(points)
}

func TestCrossings(t *testing.T) {
	if got := crossings(hourly(5, 1, 2, 3, 1, 3, 4, 2), 2); got != 2 {
		t.Errorf("%d crossings, want 2: beginning above is none", got)
	}
}

// TestBetween: a part of a history begins with the price in force, and ends with the last before its end.
func TestBetween(t *testing.T) {
	h := hourly(5, 1, 2, 3)
	part := between(h, began.Add(90*time.Minute), began.Add(150*time.Minute))
	first, _ := part.First()
	last, _ := part.Last()
	if part.Len() != 2 || first.Price != 1 || !first.At.Equal(began.Add(90*time.Minute)) || last.Price != 2 {
		t.Errorf("%d points from %+v to %+v", part.Len(), first, last)
	}
	if between(h, time.Time{}, time.Time{}) != h {
		t.Error("without limits it is not the same history")
	}
	if got := between(h, began.Add(-2*time.Hour), began.Add(-time.Hour)); got != nil {
		t.Errorf("prices before the first: %v", got)
	}
}

// TestNeighbours: pairs of a stranger's file are the types of a family next to each other in size.
func TestNeighbours(t *testing.T) {
	var pools []bidding.Candidate
	for _, name := range []string{"m4.4xlarge", "c4.xlarge", "c4.4xlarge", "c4.2xlarge", "m4.xlarge", "r3.large"} {
		pools = append(pools, bidding.Candidate{Type: market.InstanceType{Name: name, VCPU: market.VCPUOf(name)}})
	}
	got := neighbours(map[string][]bidding.Candidate{"a": pools, "b": pools[:2]}, []string{"a", "b"})
	want := []pair{{"c4.xlarge", "c4.2xlarge"}, {"c4.2xlarge", "c4.4xlarge"}, {"m4.xlarge", "m4.4xlarge"}}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got[i], want[i])
		}
	}
}

func TestParsePairs(t *testing.T) {
	got, err := parsePairs("d2.xlarge/d2.2xlarge, r3.large/c3.xlarge")
	if err != nil || len(got) != 2 || got[1] != (pair{"r3.large", "c3.xlarge"}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parsePairs("d2.xlarge"); err == nil {
		t.Error("half a pair was taken")
	}
}

// summaries are of a cell in which checkpointing costs 50, TierML 25, and so on, of 100 on demand.
func summaries() map[string]sweep.Summary {
	out := map[string]sweep.Summary{}
	for policy, cost := range map[string]float64{"on-demand": 110, "checkpoint": 50, "checkpoint-aggressive": 50, "tierml": 25,
		"tierml-aggressive": 30, "tierml-noswitch": 50, "cost-per-work": 20, "oracle": 10, "oracle-one-fleet": 15,
		"checkpoint +17 %": 60, "checkpoint +38 %": 75, "checkpoint-aggressive +62 %": 80} {
		out[policy] = sweep.Summary{Policy: policy, Starts: 4, Compared: 4, CostMean: cost, CostSD: 2, CostP95: 2 * cost, OnDemandCost: 100, RuntimeMean: 5}
	}
	return out
}

// TestReport: savings and times are those of the summaries.
func TestReport(t *testing.T) {
	p := &page{hours: []time.Duration{2 * time.Hour, 4 * time.Hour}}
	var results []result
	for _, hours := range p.hours {
		results = append(results, result{Recording: "x", Zone: "z", Pair: "a, b", Hours: hours.Hours(), Crossings: 12, Policies: summaries()})
	}
	p.prices(results, &options{starts: "4", machines: 64, reliable: 4})
	p.cells(results)
	p.reading(results, &options{machines: 64, reliable: 4})
	for _, want := range []string{
		"| all | 4 | 1 | 75 ± 1.0 % | 50 % | +25 % | +25 % | 50 % | 0 % |", // figure 12
		"| all | 4 | checkpoint +38 % | 0.75 | +25 % | 67 % |",
		"| restless | 4 | -50.0 % | +0.0 % | x z a, b | -50.0 % |", // section 4.6
		"| all | 4 | 0.250 | 0.200 ± 0.010 | -20.0 % | 0 of 1 | -20.0 % | 0.150 | 94.1 %, 94.1 % | 0.100 | 88.9 %, 88.9 % |",
		"| x z a, b | 12 | 4 | 4 | 0.250 / 0.300 | 0.500 / 0.500 | 0.750 | 0.200 | 0.150 / 0.100 | -50.0 % |",
	} {
		if !strings.Contains(p.String(), want) {
			t.Errorf("%q is missing in\n%s", want, p.String())
		}
	}
	if strings.Contains(p.String(), "%!") {
		t.Errorf("a percent sign is taken for a verb in\n%s", p.String())
	}
}

// TestResultsAreKept: what is kept is found by its question, and only by it.
func TestResultsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	r := result{Recording: "x", Zone: "z", Pair: "a, b", Hours: 4, Starts: "4, seed 1", Policies: summaries()}
	if err := keep(file, r); err != nil {
		t.Fatal(err)
	}
	kept, err := read(file)
	if err != nil || len(kept) != 1 || kept[r.key()].Policies["tierml"].CostMean != 25 {
		t.Errorf("%+v, %v", kept, err)
	}
	r.Starts = "5, seed 1"
	if _, ok := kept[r.key()]; ok {
		t.Error("four starts stand for five")
	}
}

// TestOthers: the tables of deadlines and capacity sum cells up.
func TestOthers(t *testing.T) {
	p := &page{}
	p.deadlines([]sweep.Cell{
		{Recording: "a", Slack: 1.1, Changeover: 0.1, Policy: "deadline", Starts: 5, CostMean: 9}, {Recording: "a", Slack: 1.1, Changeover: 0.1, Policy: "uniform-progress", Starts: 5, CostMean: 10},
		{Recording: "b", Slack: 1.1, Changeover: 0.1, Policy: "deadline", Starts: 5, CostMean: 21}, {Recording: "b", Slack: 1.1, Changeover: 0.1, Policy: "uniform-progress", Starts: 5, CostMean: 20},
	}, time.Second)
	p.capacity([]sweep.Option{{Name: "all pools", Policy: "capacity", Starts: 3, Finished: 3, PerFinished: 0.4},
		{Name: "za", Policy: "capacity", PerFinished: 0.5, Low: 0.05, High: 0.2}, {Name: "c in za", Policy: "tierml", PerFinished: 0.3}}, 2, time.Second)
	for _, want := range []string{
		"| 1.1 | 6 min | 2 | 15.00 | 15.00 | +0.0 % | +5.0 % |",
		"| za | capacity | 0 of 0 | 50.00 | 0.00 | 0.00 | 0.0 | +10.00 [+5.00, +20.00] |",
		"single zone per finished run, za by `capacity`, costs more than all pools: 50.00 % and 40.00 %",
		"single pool per finished run, c in za by `tierml`, costs less than all pools: 30.00 % and 40.00 %",
	} {
		if !strings.Contains(p.String(), want) {
			t.Errorf("%q is missing in\n%s", want, p.String())
		}
	}
	if strings.Contains(p.String(), "%!") {
		t.Errorf("a percent sign is taken for a verb in\n%s", p.String())
	}
}
