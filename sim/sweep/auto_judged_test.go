package sweep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestAutoOnRecordings judges `policy: auto` in markets of recordings, 8 and 20 hours of work each, against the fixed policy that was
// cheapest in hindsight, against checkpoint, and with `prefer: time`. Recordings are not shipped: `make auto DATA=DIR`. Ratios are of
// means over the same starts, with bootstrap intervals of 95 % over starts; a bar is missed where the whole interval lies above it.
func TestAutoOnRecordings(t *testing.T) {
	data := os.Getenv("TIERML_AUTO_DATA")
	if data == "" {
		t.Skip("TIERML_AUTO_DATA names no recordings: make auto")
	}
	count, err := strconv.Atoi(os.Getenv("TIERML_AUTO_STARTS"))
	if err != nil {
		t.Fatal(err)
	}
	var total autoTotals
	fmt.Printf("%-74s %2s %3s | %-14s %5s | %5s %5s %-15s | %5s %5s | %5s %-15s | %5s %5s\n", "market", "h", "x", "best fixed", "cost", "auto", "/best", "95 %",
		"P95/", "hours", "/chk", "95 %", "t:h/u", "$/tml")
	for _, m := range autoMarkets(t, data) {
		if !strings.Contains(m.name, os.Getenv("TIERML_AUTO_ONLY")) {
			continue
		}
		for _, hours := range []time.Duration{8 * time.Hour, 20 * time.Hour} {
			judged, err := judgeAuto(t.Context(), m, hours, count)
			if err != nil {
				t.Logf("%s, %.0f h: %v", m.name, hours.Hours(), err) // a short history
				continue
			}
			total.add(judged)
			fmt.Println(judged)
		}
	}
	total.report(t)
}

// autoJudged is one market and length. Costs are shares of on-demand.
type autoJudged struct {
	name             string
	hours            time.Duration
	crossings        int
	best             string
	bestCost, auto   float64
	overBest         ratio
	p95              float64 // of auto, over the best policy's
	runtime          float64 // hours
	overCheckpoint   ratio
	p95Checkpoint    float64
	slow, overTierML float64 // prefer: time: run time over undisturbed, cost over tierml's
}

func (j autoJudged) String() string {
	return fmt.Sprintf("%-74s %2.0f %3d | %-14s %.3f | %.3f %.3f %s | %.3f %5.1f | %.3f %s | %.3f %.3f", j.name, j.hours.Hours(), j.crossings, j.best, j.bestCost,
		j.auto, j.overBest.mean, j.overBest, j.p95, j.runtime, j.overCheckpoint.mean, j.overCheckpoint, j.slow, j.overTierML)
}

// ratio is one of means, with its bootstrap interval.
type ratio struct{ mean, low, high float64 }

func (r ratio) String() string { return fmt.Sprintf("[%.3f, %.3f]", r.low, r.high) }

func judgeAuto(ctx context.Context, m cell, hours time.Duration, count int) (j autoJudged, err error) {
	run := func(p Experiment) (map[string][]Row, error) {
		p.Hours, p.Starts = []time.Duration{hours}, Starts{Count: count, Seed: 1}
		rows, err := Run(ctx, p, func(int, int) {})
		by := map[string][]Row{}
		for _, r := range rows {
			by[r.Policy] = append(by[r.Policy], r)
		}
		return by, err
	}
	rows, err := run(Experiment{Job: m.job, Policies: append(Candidates(false), Auto)})
	if err != nil {
		return j, err
	}
	hasty := m.job
	hasty.ValueOfTime = 4 * PerHour(&hasty) // prefer: time
	timely, err := run(Experiment{Job: hasty, Policies: []string{Auto}})
	if err != nil {
		return j, err
	}
	costs := func(rows []Row) (out []float64) {
		for _, r := range rows {
			cost := dollars(r.Cost) / r.OnDemand
			if !r.Finished() { // given up at the horizon: the rest on demand
				cost += 1 - float64(r.Clocks)/float64(max(1, hours/clockLength))
			}
			out = append(out, cost)
		}
		return out
	}
	j = autoJudged{name: m.name, hours: hours, crossings: m.crossings}
	for _, name := range Candidates(false) {
		if c := mean(costs(rows[name])); j.best == "" || c < j.bestCost {
			j.best, j.bestCost = name, c
		}
	}
	auto := costs(rows[Auto])
	j.auto = mean(auto)
	j.overBest = bootstrap(auto, costs(rows[j.best]))
	j.overCheckpoint = bootstrap(auto, costs(rows["checkpoint"]))
	j.p95 = p95(auto) / p95(costs(rows[j.best]))
	j.p95Checkpoint = p95(auto) / p95(costs(rows["checkpoint"]))
	times := func(rows []Row) (out []float64) {
		for _, r := range rows {
			out = append(out, r.Runtime.Hours())
		}
		return out
	}
	j.runtime = mean(times(rows[Auto]))
	j.slow = mean(times(timely[Auto])) / hours.Hours()
	j.overTierML = mean(costs(timely[Auto])) / mean(costs(rows["tierml"]))
	return j, nil
}

func mean(x []float64) (sum float64) {
	for _, v := range x {
		sum += v / float64(len(x))
	}
	return sum
}

func p95(x []float64) float64 {
	sorted := slices.Clone(x)
	_, _, _, _, p := distribution(sorted)
	return p
}

// bootstrap is the ratio of the means of a and b, which are of the same starts.
func bootstrap(a, b []float64) ratio {
	const rounds = 1000
	r := rand.New(rand.NewPCG(1, 1))
	all := make([]float64, rounds)
	for i := range all {
		var x, y float64
		for range a {
			n := r.IntN(len(a))
			x, y = x+a[n], y+b[n]
		}
		all[i] = x / y
	}
	slices.Sort(all)
	return ratio{mean(a) / mean(b), all[rounds/40], all[rounds-1-rounds/40]}
}

// autoTotals are those of all markets.
type autoTotals struct{ all []autoJudged }

func (a *autoTotals) add(j autoJudged) { a.all = append(a.all, j) }

// report prints the means over markets, and fails for bars that are missed.
func (a *autoTotals) report(t *testing.T) {
	if len(a.all) == 0 {
		t.Fatal("no market was judged")
	}
	var auto, best, over, slow, overTierML, p95, restless, restlessP95 []float64
	for _, j := range a.all {
		auto, best, over = append(auto, j.auto), append(best, j.bestCost), append(over, j.overBest.mean)
		slow, overTierML, p95 = append(slow, j.slow), append(overTierML, j.overTierML), append(p95, j.p95)
		if j.crossings >= 10 {
			restless, restlessP95 = append(restless, j.overCheckpoint.mean), append(restlessP95, j.p95Checkpoint)
		}
		name := fmt.Sprintf("%s, %.0f h", j.name, j.hours.Hours())
		if j.overBest.low > 1.10 {
			t.Errorf("%s: auto costs %.3f %s times what %s does", name, j.overBest.mean, j.overBest, j.best)
		}
		if j.p95 > 1.10 {
			t.Errorf("%s: the 95th percentile of auto is %.3f times that of %s", name, j.p95, j.best)
		}
		if j.overCheckpoint.low > 1.01 {
			t.Errorf("%s: auto costs %.3f %s times what checkpoint does", name, j.overCheckpoint.mean, j.overCheckpoint)
		}
	}
	all := bootstrap(auto, best)
	fmt.Printf("\nmean over %d cells: auto %.3f of on-demand, the best fixed policy in hindsight %.3f: ratio of means %.3f %s (markets drawn), mean of ratios %.3f, "+
		"worst %.3f; P95 %.3f\n", len(auto), mean(auto), mean(best), all.mean, all, mean(over), slices.Max(over), mean(p95))
	fmt.Printf("prefer: time: run time %.3f of undisturbed, at worst %.3f; cost %.3f of tierml's\n", mean(slow), slices.Max(slow), mean(overTierML))
	if len(restless) > 0 {
		fmt.Printf("%d restless cells (10 crossings or more): %.3f of checkpoint's cost, %.3f of its P95\n", len(restless), mean(restless), mean(restlessP95))
	}
	if all.mean > 1.03 {
		t.Errorf("over all markets auto costs %.3f times the best fixed policy", all.mean)
	}
	if m := mean(slow); m > 1.05 {
		t.Errorf("with prefer: time runs take %.3f times the undisturbed time", m)
	}
	if m := mean(overTierML); m > 1 {
		t.Errorf("with prefer: time auto costs %.3f times what tierml does", m)
	}
}
