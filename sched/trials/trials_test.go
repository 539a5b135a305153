package trials_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/tierml/tierml/sched/trials"
)

func parse(t *testing.T, name, text string) trials.Range {
	t.Helper()
	r, err := trials.ParseRange(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRanges(t *testing.T) {
	s := trials.Sweep{Samples: 4000, Seed: 7, Ranges: []trials.Range{
		parse(t, "A", "log 1e-4..1"), parse(t, "B", "2..8"), parse(t, "C", "-0.5..0.5"), {Name: "D", Values: []string{"x", "y"}},
	}}
	drawn := s.Trials()
	small, whole, d := 0, map[string]int{}, map[string]int{}
	for _, trial := range drawn {
		a, errA := strconv.ParseFloat(trial["A"], 64)
		c, errC := strconv.ParseFloat(trial["C"], 64)
		if errA != nil || errC != nil || a < 1e-4 || a > 1 || c < -.5 || c > .5 {
			t.Fatalf("%v", trial)
		}
		if a < 1e-2 {
			small++
		}
		whole[trial["B"]]++
		d[trial["D"]]++
	}
	if small < 1850 || small > 2150 { // half of the decades
		t.Errorf("%d of 4000 below the middle of the logarithm", small)
	}
	if len(whole) != 7 || whole["2"] < 450 || whole["8"] < 450 || len(d) != 2 {
		t.Errorf("%v %v", whole, d)
	}
	s.Samples = 10
	if fewer := s.Trials(); fmt.Sprint(fewer) != fmt.Sprint(drawn[:10]) {
		t.Error("fewer samples are other trials")
	}
	for _, bad := range []string{"3", "1..1", "2..1", "a..b", "log 0..1", "0..inf", "nan..1", ""} {
		if _, err := trials.ParseRange("X", bad); err == nil {
			t.Errorf("%q is taken for a range", bad)
		}
	}
}

func TestGrid(t *testing.T) {
	s := trials.Sweep{Grid: true, Ranges: []trials.Range{{Name: "A", Values: []string{"1", "2"}}, {Name: "B", Values: []string{"x", "y", "z"}}}}
	seen := map[string]bool{}
	for _, trial := range s.Trials() {
		seen[trial["A"]+trial["B"]] = true
	}
	if s.Number() != 6 || len(seen) != 6 {
		t.Errorf("%d trials: %v", s.Number(), seen)
	}
}

// Whatever the order in which trials reach their rungs, the same ones continue: the best by losses that are all known only at the end. No
// decision is revoked, and no trial waits once all have arrived. EPS, section 4.1: feedback is compared at the same clock.
func TestDecisionsAreFinal(t *testing.T) {
	rungs := []trials.Rung{{At: 5, Keep: 6}, {At: 20, Keep: 2}}
	for seed := range uint64(300) {
		chance := rand.New(rand.NewPCG(seed, 1))
		const n = 17
		var full [n]trials.Trial
		for i := range full {
			for range rungs {
				loss := float64(chance.IntN(9))
				if chance.IntN(8) == 0 {
					loss = math.NaN()
				}
				full[i].Losses = append(full[i].Losses, loss)
			}
			if chance.IntN(10) == 0 {
				full[i].Losses, full[i].Ended, full[i].Failed = full[i].Losses[:chance.IntN(2)], true, true
			}
		}
		var first []trials.Decision
		for range 3 {
			now := make([]trials.Trial, n)
			decided := make([]trials.Decision, n)
			for {
				verdicts := trials.Decide(rungs, now)
				var open []int
				for i, v := range verdicts {
					if before := decided[i]; before == trials.Out && v.Decision != trials.Out {
						t.Fatalf("seed %d: trial %d was out, and is %v", seed, i, v)
					}
					decided[i] = v.Decision
					if v.Decision == trials.Goes && !now[i].Ended && len(now[i].Losses) < len(rungs) {
						open = append(open, i)
					}
				}
				if len(open) == 0 {
					break
				}
				i := open[chance.IntN(len(open))]
				if at := len(now[i].Losses); at < len(full[i].Losses) {
					now[i].Losses = full[i].Losses[:at+1]
				} else {
					now[i].Ended, now[i].Failed = true, true
				}
			}
			if slices.Contains(decided, trials.Waits) {
				t.Fatalf("seed %d: %v", seed, decided)
			}
			if first == nil {
				first = decided
			}
			if !slices.Equal(first, decided) {
				t.Fatalf("seed %d: %v and %v", seed, first, decided)
			}
		}
		going := 0
		for _, d := range first {
			going += 1 - min(int(d), 1)
		}
		if going != 2 {
			t.Errorf("seed %d: %d went on to the end", seed, going)
		}
	}
}

func TestShare(t *testing.T) {
	rungs := []trials.Rung{{At: 5, Keep: 8}, {At: 15, Keep: 2}}
	if got, want := trials.Share(rungs, 24, 30), (24*5+8*10+2*15)/(24*30.); math.Abs(got-want) > 1e-12 {
		t.Errorf("%g, not %g", got, want)
	}
	if got := trials.Share(nil, 24, 30); got != 1 {
		t.Errorf("%g without rungs", got)
	}
}
