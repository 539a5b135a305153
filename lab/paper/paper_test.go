package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
)

var began = time.Date(2016, 3, 1, 0, 0, 0, 0, time.UTC)

// hourly returns a history of one price an hour.
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

// runs are of a cell in which checkpointing costs .5, TierML .25, and so on, of on demand; one in ten costs twice as much.
func runs() map[string][]run {
	out := map[string][]run{}
	for policy, cost := range map[string]float64{"on-demand": 1.1, "checkpoint": 0.5, "checkpoint-aggressive": 0.5, "tierml": 0.25,
		"tierml-aggressive": 0.3, "tierml-noswitch": 0.5, "cost-per-work": 0.2, "checkpoint, 64 s to save": 0.625, "checkpoint +18 %": 0.6, "checkpoint +50 %": 0.75} {
		for i := range 10 {
			one := run{Cost: cost / 1.1, Hours: 5}
			if i == 3 {
				one.Cost *= 2
			}
			out[policy] = append(out[policy], one)
		}
	}
	return out
}

// TestPage: savings, times and percentiles are those of the runs.
func TestPage(t *testing.T) {
	p := &page{hours: []time.Duration{2 * time.Hour, 4 * time.Hour}}
	var results []result
	for _, hours := range p.hours {
		results = append(results, result{Recording: "x", Zone: "z", Pair: "a, b", Hours: hours.Hours(), Crossings: 12, Policies: runs()})
	}
	results = append(results, result{Recording: "x", Zone: "calm", Pair: "a, b", Hours: 4, Policies: runs()})
	p.write(results, 3, &options{starts: "10", machines: 64, reliable: 1}, control{cost: -0.2, time: -0.05, starts: 7})
	for _, want := range []string{
		"2 of 3 cells", "10 starts of each cell", "300 runs", "## All cells: 1", "## Restless cells: 1",
		"on demand | 74-78 % | 75 ± 5 % | 75 ± 3 % |",                                // .25, deviation .07 of 10 and of 20 runs
		"| of machines on demand that start, and pay whole hours |  | 77 % | 77 % |", // .25 / 1.1
		"| its P95 is below on demand by | 59 % | 55 % | 55 % |",                     // 2 x .25 / 1.1
		"| its run time | +11 % | +150 % | +25 % |",
		"| `tierml` saves, of `checkpoint` at our cost of saving | 46-50 % | 50 % | 50 % |",
		"| of it at 64 s for 2 GB, as measured |  | 60 % | 60 % |",
		"| of it with 50 % more work for saving |  | 67 % | 67 % |",
		"| switching alone: cost | -34 % | -50.0 % | -50.0 % |",
		"changes the cost by -20.0 % and the run time by -5.0 % (7 starts, 8 hours)",
		"costs 0.016 of on demand, 6 % of what `tierml` pays",
	} {
		if !strings.Contains(p.String(), want) {
			t.Errorf("%q is missing in\n%s", want, p.String())
		}
	}
	if strings.Contains(p.String(), "%!") {
		t.Errorf("a percent sign is taken for a verb in\n%s", p.String())
	}
}

// TestSwitchingBuysTime: where pools are restless in turn, switching makes runs shorter, at a cost of a few per cent. TIERML_SWITCHING=1 looks for
// a market in which it saves money.
func TestSwitchingBuysTime(t *testing.T) {
	markets := []inTurn{usual}
	if os.Getenv("TIERML_SWITCHING") != "" {
		markets = others()
	}
	saves := 0
	for _, m := range markets {
		c, err := m.run(t.Context(), fleet{machines: 64, reliable: 1}, 12)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v: cost %s, run time %s", m, precise(c.cost), precise(c.time))
		if m == usual && (c.time >= 0 || c.cost > 0.05) {
			t.Errorf("switching changes the cost by %+.3f and the time by %+.3f", c.cost, c.time)
		}
		if c.cost < -0.005 {
			saves++
		}
	}
	t.Logf("switching saves money in %d of %d markets", saves, len(markets))
}

// TestResultsAreKept: what is kept is found by its question, and only by it.
func TestResultsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	r := result{Recording: "x", Zone: "z", Pair: "a, b", Hours: 4, Starts: "4, seed 1", Policies: runs()}
	if err := keep(file, r); err != nil {
		t.Fatal(err)
	}
	kept, err := read(file)
	if err != nil || len(kept) != 1 || kept[r.key()].Policies["tierml"][0].Cost != r.Policies["tierml"][0].Cost {
		t.Errorf("%+v, %v", kept, err)
	}
	r.Starts = "5, seed 1"
	if _, ok := kept[r.key()]; ok {
		t.Error("four starts stand for five")
	}
}
