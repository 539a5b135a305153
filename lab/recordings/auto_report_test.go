package recordings

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// keptJudged are results in a file, one a line, so that judging may be broken off and continued.
type keptJudged struct {
	t    *testing.T
	file *os.File // nil = nothing is kept
	all  []autoJudged
}

func openKeptJudged(t *testing.T, name string) *keptJudged {
	t.Helper()
	k := &keptJudged{t: t}
	if name == "" {
		return k
	}
	var err error
	if k.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.file.Close() })
	for lines := bufio.NewScanner(k.file); lines.Scan(); {
		var j autoJudged
		if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		k.all = append(k.all, j)
	}
	return k
}

func (k *keptJudged) find(market string, hours float64, starts int) (j autoJudged, known bool) {
	i := slices.IndexFunc(k.all, func(j autoJudged) bool { return j.Market == market && j.Hours == hours && j.Starts == starts })
	if i < 0 {
		return j, false
	}
	return k.all[i], true
}

func (k *keptJudged) add(j autoJudged) {
	if k.file == nil {
		return
	}
	line, err := json.Marshal(j)
	if err == nil {
		_, err = k.file.Write(append(line, '\n'))
	}
	if err != nil {
		k.t.Error(err)
	}
}

// autoTotals are those of all markets.
type autoTotals struct{ all []autoJudged }

// of returns a figure of the cells that count.
func (a *autoTotals) of(counts func(autoJudged) bool, figure func(autoJudged) float64) (out []float64) {
	for _, j := range a.all {
		if counts(j) {
			out = append(out, figure(j))
		}
	}
	return out
}

func everyCell(autoJudged) bool { return true }

// restlessCell: prices that exceed the on-demand price often.
func restlessCell(j autoJudged) bool { return j.Crossings >= 10 }

// freeHours: interrupted hours are free, which the clairvoyant does not make use of.
func freeHours(j autoJudged) bool { return strings.Contains(j.Market, "ec2-2017") }

// report prints the means over markets, and fails for bars that are missed.
func (a *autoTotals) report(t *testing.T) {
	if len(a.all) == 0 {
		t.Fatal("no market was judged")
	}
	for _, j := range a.all {
		j.check(t)
	}
	auto := a.of(everyCell, func(j autoJudged) float64 { return j.Auto })
	best := a.of(everyCell, func(j autoJudged) float64 { return j.BestCost })
	over := a.of(everyCell, func(j autoJudged) float64 { return j.OverBest.Mean })
	slow := a.of(everyCell, func(j autoJudged) float64 { return j.Slow })
	all := bootstrap(auto, best)
	fmt.Printf("\nmean over %d cells: auto %.3f of on demand, the best fixed policy in hindsight %.3f: ratio of means %.3f %s (markets drawn), mean of ratios %.3f, "+
		"worst %.3f; P95 %.3f\n", len(auto), mean(auto), mean(best), all.Mean, all, mean(over), slices.Max(over), mean(a.of(everyCell, func(j autoJudged) float64 { return j.P95 })))
	timely := a.of(everyCell, func(j autoJudged) float64 { return j.OverTimely.Mean })
	fmt.Printf("prefer: time: cost and time %.3f of the best fixed policy's, at worst %.3f; run time %.3f of undisturbed, at worst %.3f\n", mean(timely), slices.Max(timely),
		mean(slow), slices.Max(slow))
	atMost(t, "auto over the best fixed policy, all markets", all.Low, 1.03)
	atMost(t, "prefer: time: cost and time over the best fixed policy's", mean(timely), 1.03)
	if restless := a.of(restlessCell, func(j autoJudged) float64 { return j.OverCheckpoint.Mean }); len(restless) > 0 {
		p95 := mean(a.of(restlessCell, func(j autoJudged) float64 { return j.P95Checkpoint }))
		fmt.Printf("%d restless cells (10 crossings or more): %.3f of checkpoint's cost, %.3f of its P95\n", len(restless), mean(restless), p95)
		atMost(t, "restless: cost over checkpoint's", mean(restless), 0.75)
		atMost(t, "restless: P95 over checkpoint's", p95, 0.7)
	}
	kept := func(j autoJudged) float64 { return j.KeptOfClairvoyant.Mean }
	fmt.Printf("of the clairvoyant's saving: mean %.3f, at worst %.3f\n", mean(a.of(everyCell, kept)), slices.Min(a.of(everyCell, kept)))
	if free := a.of(freeHours, kept); len(free) > 0 {
		fmt.Printf("under ec2-2017, %d cells: mean %.3f\n", len(free), mean(free))
		atMost(t, "ec2-2017: part of the clairvoyant's saving that is lost", 1-mean(free), 0)
	}
}

// check fails for bars that a cell misses with its whole interval.
func (j autoJudged) check(t *testing.T) {
	name := fmt.Sprintf("%s, %.0f h: ", j.Market, j.Hours)
	atMost(t, name+"cost over that of "+j.Best, j.OverBest.Low, 1.10)
	atMost(t, name+"prefer: time: cost and time over those of "+j.BestTimely, j.OverTimely.Low, 1.10)
	atMost(t, name+"P95 over that of "+j.Best, j.P95, 1.10)
	atMost(t, name+"cost over checkpoint's", j.OverCheckpoint.Low, 1.01)
	atMost(t, name+"part of the clairvoyant's saving that is lost", 1-j.KeptOfClairvoyant.High, 0.05)
}

func atMost(t *testing.T, what string, is, bar float64) {
	if is > bar {
		t.Errorf("%s: %.3f; the bar is %.3f", what, is, bar)
	}
}
