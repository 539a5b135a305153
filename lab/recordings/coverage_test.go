package recordings

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/sweep"
)

// TestCoverageOnARecording measures forecasts against outcomes in markets of a recording that the tests do not know: from starts spread over it, how
// many runs end within the range of the plan that is made at the start, and how far the middle is from the mean outcome. Recordings are not shipped:
// `make -C lab coverage TRACE=FILE CATALOG=FILE`.
func TestCoverageOnARecording(t *testing.T) {
	trace := os.Getenv("TIERML_COVERAGE_TRACE")
	if trace == "" {
		t.Skip("TIERML_COVERAGE_TRACE names no recording: make -C lab coverage")
	}
	number := func(name string) float64 {
		x, err := strconv.ParseFloat(os.Getenv(name), 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	rules, err := market.Rules(os.Getenv("TIERML_COVERAGE_RULES"))
	if err != nil {
		t.Fatal(err)
	}
	length := time.Duration(number("TIERML_COVERAGE_HOURS") * float64(time.Hour))
	all, most := cells(t, trace, os.Getenv("TIERML_COVERAGE_CATALOG")), int(number("TIERML_COVERAGE_CELLS"))
	if len(all) == 0 { // no two types of a family
		for _, p := range recordedPools(t, trace, os.Getenv("TIERML_COVERAGE_CATALOG")) {
			all = append(all, cell{name: filepath.Base(trace) + " " + p.Pool.Zone + " " + p.Type.Name, job: cellJob(rules, p)})
		}
	}
	fmt.Printf("%-64s plans | cost inside below  mid/mean width  same | time inside below  mid/mean width  same\n", "market")
	for i, shown := 0, 0; i < len(all) && shown < most; i++ {
		if most < len(all) && i*most/len(all) < shown { // spread over the recording
			continue
		}
		job := all[i].job
		job.Rules = rules
		if err := (sweep.Evictions{}).Apply(&job); err != nil {
			t.Fatal(err)
		}
		job = sweep.OnEC2(job, length)
		policy, err := bidding.ByName(os.Getenv("TIERML_COVERAGE_POLICY"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := coverageOf(t.Context(), sweep.WithPolicy(job, policy), length, sweep.Starts{Count: int(number("TIERML_COVERAGE_STARTS")), Seed: 1})
		if err != nil {
			t.Logf("%s: %v", all[i].name, err) // a short history
			continue
		}
		shown++
		fmt.Printf("%-64s %v\n", all[i].name, c)
	}
}

// coverage is of forecasts against outcomes.
type coverage struct {
	plans      int
	cost, time hits
}

// hits are of one figure.
type hits struct {
	inside, below   int
	middle, outcome float64 // sums
	width           float64 // sum of the ends' ratios
	outcomes        []float64
}

// same returns the largest share of outcomes within 1 % of each other: any range around them has at least these inside.
func (h hits) same() float64 {
	slices.Sort(h.outcomes)
	most, from := 0, 0
	for i, x := range h.outcomes {
		for h.outcomes[from]*1.01 < x {
			from++
		}
		most = max(most, i-from+1)
	}
	return float64(most) / float64(len(h.outcomes))
}

func (c coverage) String() string {
	return fmt.Sprintf("%5d | %v | %v", c.plans, c.cost.of(c.plans), c.time.of(c.plans))
}

func (h hits) of(plans int) string {
	n := float64(plans)
	return fmt.Sprintf("     %.3f  %.3f     %.3f %.3f  %.3f", float64(h.inside)/n, float64(h.below)/n, h.middle/h.outcome, h.width/n, h.same())
}

func add[T cmp.Ordered](h *hits, r planner.Range[T], outcome T, number func(T) float64) {
	switch {
	case outcome < r.Low:
		h.below++
	case outcome <= r.High || r.HighOpen:
		h.inside++
	}
	h.middle += number(r.Middle)
	h.outcome += number(outcome)
	h.width += number(r.High) / number(r.Low)
	h.outcomes = append(h.outcomes, number(outcome))
}

// coverageOf plans a job at starts and runs it from each. Plans that know no cost, and runs that do not end, do not count.
func coverageOf(ctx context.Context, cfg sim.Config, length time.Duration, starts sweep.Starts) (c coverage, err error) {
	rows, err := sweep.Run(ctx, sweep.Experiment{Job: cfg, Policies: []string{cfg.Policy.Name()}, Hours: []time.Duration{length}, Starts: starts}, func(int, int) {})
	if err != nil {
		return c, err
	}
	past := sweep.Past{Job: cfg}
	for _, r := range rows {
		f, err := past.Estimate(planner.Input{Now: r.Start})
		if err != nil {
			return c, err
		}
		if !f.Cost.Known || !f.Time.Known || !r.Finished() {
			continue
		}
		c.plans++
		add(&c.cost, f.Cost, r.Cost, dollars)
		add(&c.time, f.Time, r.Runtime, time.Duration.Hours)
	}
	if c.plans == 0 {
		return c, fmt.Errorf("no plan knows its cost")
	}
	return c, nil
}
