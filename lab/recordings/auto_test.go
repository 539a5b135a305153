package recordings

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

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim/sweep"
)

// TestAutoOnRecordings judges `policy: auto` in markets of recordings, 8 and 20 hours of work each, against the fixed policy that was
// cheapest in hindsight, against checkpoint and the clairvoyant, and with `prefer: time`. Recordings are not shipped: `make auto DATA=DIR`.
// Ratios are of means over the same starts, with bootstrap intervals of 95 % over starts; a bar is missed where the whole interval lies
// beyond it. TIERML_AUTO_KEPT names a file that keeps the results: what it holds is not done again.
func TestAutoOnRecordings(t *testing.T) {
	data := os.Getenv("TIERML_AUTO_DATA")
	if data == "" {
		t.Skip("TIERML_AUTO_DATA names no recordings: make auto")
	}
	count, err := strconv.Atoi(os.Getenv("TIERML_AUTO_STARTS"))
	if err != nil {
		t.Fatal(err)
	}
	kept := openKeptJudged(t, os.Getenv("TIERML_AUTO_KEPT"))
	var total autoTotals
	fmt.Println(autoHeader)
	markets := autoMarkets(t, data)
	for _, length := range strings.Fields(os.Getenv("TIERML_AUTO_HOURS")) { // the shorter ones first: what is broken off has met all markets
		hours, err := strconv.ParseFloat(length, 64)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range markets {
			if !strings.Contains(m.name, os.Getenv("TIERML_AUTO_ONLY")) {
				continue
			}
			judged, known := kept.find(m.name, hours, count)
			if !known {
				if judged, err = judgeAuto(t.Context(), m, hours, count); err != nil {
					t.Logf("%s, %.0f h: %v", m.name, hours, err) // a short history
					continue
				}
				kept.add(judged)
			}
			total.all = append(total.all, judged)
			fmt.Println(judged)
		}
	}
	total.report(t)
}

// autoJudged is one market and length. Costs are shares of undisturbed work on demand.
type autoJudged struct {
	Market            string
	Hours             float64
	Starts, Crossings int
	Best              string
	BestCost, Auto    float64
	OverBest          ratio
	P95               float64 // of auto, over the best policy's
	Runtime           float64 // hours
	OverCheckpoint    ratio
	P95Checkpoint     float64
	Clairvoyant       float64
	KeptOfClairvoyant ratio   // auto's saving against on demand over the clairvoyant's
	BestKept          float64 // the same of the best policy
	// prefer: time, with an hour's worth in the costs
	BestTimely string
	OverTimely ratio   // of auto, over the best policy's
	Slow       float64 // run time over undisturbed
}

const autoHeader = "market                                                                      h   x | best fixed      cost |  auto /best 95 %            P95/ hours |  /chk 95 %" +
	"            P95/ | clair  kept 95 %             best | time: best      /best 95 %           h/u"

func (j autoJudged) String() string {
	return fmt.Sprintf("%-74s %2.0f %3d | %-14s %.3f | %.3f %.3f %s %.3f %5.1f | %.3f %s %.3f | %.3f %.3f %s %.3f | %-14s %.3f %s %.3f", j.Market, j.Hours, j.Crossings, j.Best, j.BestCost,
		j.Auto, j.OverBest.Mean, j.OverBest, j.P95, j.Runtime, j.OverCheckpoint.Mean, j.OverCheckpoint, j.P95Checkpoint,
		j.Clairvoyant, j.KeptOfClairvoyant.Mean, j.KeptOfClairvoyant, j.BestKept,
		j.BestTimely, j.OverTimely.Mean, j.OverTimely, j.Slow)
}

// ratio is one of means, with its bootstrap interval.
type ratio struct{ Mean, Low, High float64 }

func (r ratio) String() string { return fmt.Sprintf("[%.3f, %.3f]", r.Low, r.High) }

func judgeAuto(ctx context.Context, m cell, hours float64, count int) (j autoJudged, err error) {
	length := time.Duration(hours * float64(time.Hour))
	run := func(p sweep.Experiment) (map[string][]sweep.Row, error) {
		p.Hours, p.Starts = []time.Duration{length}, sweep.Starts{Count: count, Seed: 1}
		rows, err := sweep.Run(ctx, p, func(int, int) {})
		by := map[string][]sweep.Row{}
		for _, r := range rows {
			by[r.Policy] = append(by[r.Policy], r)
		}
		return by, err
	}
	rows, err := run(sweep.Experiment{Job: m.job, Policies: append(sweep.Candidates(false), sweep.Auto, sweep.Clairvoyant)})
	if err != nil {
		return j, err
	}
	hasty := m.job
	hasty.ValueOfTime = (&config.Job{Prefer: config.PreferTime}).ValueOfHour(sweep.PerHour(&hasty))
	timely, err := run(sweep.Experiment{Job: hasty, Policies: append(sweep.Candidates(false), sweep.Auto)})
	if err != nil {
		return j, err
	}
	clocks := sweep.OnEC2(m.job, length).Job.Clocks
	costs := func(rows []sweep.Row) (out []float64) {
		for _, r := range rows {
			cost := dollars(r.Cost) / r.OnDemand
			if r.Policy == sweep.Clairvoyant {
				cost = dollars(r.Oracle) / r.OnDemand
			} else if !r.Finished() { // given up at the horizon: the rest on demand
				cost += 1 - float64(r.Clocks)/float64(clocks)
			}
			out = append(out, cost)
		}
		return out
	}
	j = autoJudged{Market: m.name, Hours: hours, Starts: count, Crossings: m.crossings}
	perHour := dollars(hasty.ValueOfTime) // what finishing an hour earlier is worth
	worth := func(rows []sweep.Row) []float64 {
		out := costs(rows)
		for i, r := range rows {
			out[i] += perHour * r.Runtime.Hours() / r.OnDemand
		}
		return out
	}
	for _, name := range sweep.Candidates(false) {
		if c := mean(costs(rows[name])); j.Best == "" || c < j.BestCost {
			j.Best, j.BestCost = name, c
		}
		if j.BestTimely == "" || mean(worth(timely[name])) < mean(worth(timely[j.BestTimely])) {
			j.BestTimely = name
		}
	}
	auto, best, checkpoint, clairvoyant := costs(rows[sweep.Auto]), costs(rows[j.Best]), costs(rows["checkpoint"]), costs(rows[sweep.Clairvoyant])
	j.Auto, j.Clairvoyant = mean(auto), mean(clairvoyant)
	j.OverBest, j.OverCheckpoint = bootstrap(auto, best), bootstrap(auto, checkpoint)
	j.P95, j.P95Checkpoint = p95(auto)/p95(best), p95(auto)/p95(checkpoint)
	j.KeptOfClairvoyant = bootstrap(savings(auto), savings(clairvoyant))
	j.BestKept = mean(savings(best)) / mean(savings(clairvoyant))
	times := func(rows []sweep.Row) (out []float64) {
		for _, r := range rows {
			out = append(out, r.Runtime.Hours())
		}
		return out
	}
	j.Runtime = mean(times(rows[sweep.Auto]))
	j.Slow = mean(times(timely[sweep.Auto])) / hours
	j.OverTimely = bootstrap(worth(timely[sweep.Auto]), worth(timely[j.BestTimely]))
	return j, nil
}

// savings returns those of shares of the on-demand cost.
func savings(costs []float64) (out []float64) {
	for _, c := range costs {
		out = append(out, 1-c)
	}
	return out
}

func mean(x []float64) (sum float64) {
	for _, v := range x {
		sum += v / float64(len(x))
	}
	return sum
}

func p95(x []float64) float64 {
	sorted := slices.Sorted(slices.Values(x))
	return sorted[max(1, (len(x)*95+99)/100)-1]
}

func dollars(u market.USD) float64 { return float64(u) / float64(market.Dollar) }

// bootstrap returns the ratio of the means of a and b, which are of the same starts.
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
