package sweep

import (
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sim"
)

// pastJob returns the demo on one pool with its own prices: for each hour, from 30 days before the job's start to one day after it, in
// thousandths of a dollar.
func pastJob(t *testing.T, price func(hour int) int) (sim.Config, planner.Input) {
	t.Helper()
	cfg := demo(t)
	pool := cfg.Pools[0]
	var points []market.PricePoint
	for h := -30 * 24; h < 24; h++ {
		points = append(points, market.PricePoint{At: cfg.Start.Add(time.Duration(h) * time.Hour), Price: market.USD(price(h)) * market.Dollar / 1000})
	}
	pool.History = market.NewHistory(points)
	cfg.Pools = []bidding.Candidate{pool}
	cfg.Want, cfg.Job.Clocks, cfg.Job.Work = bidding.Want{Machines: 4}, 40, cfg.Job.Work/8
	return cfg, planner.Input{Now: cfg.Start}
}

func estimate(t *testing.T, cfg sim.Config, in planner.Input) planner.Forecast {
	t.Helper()
	f, err := Past{Job: cfg}.Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func always(int) int { return 40 }

// TestPastIsTheDryRun: each start of the estimate equals the dry run's.
func TestPastIsTheDryRun(t *testing.T) {
	cfg, in := pastJob(t, always)
	f := estimate(t, cfg, in)
	if !f.Cost.Known || f.Cost.HighOpen || !strings.HasPrefix(f.Basis, "169 past starts, one every 4h") {
		t.Fatalf("%+v", f)
	}
	cfg.Faults = nil
	rows, err := Run(t.Context(), Experiment{Job: cfg, Policies: []string{"tierml"}, Starts: Starts{At: cfg.Start.Add(-48 * time.Hour)}}, func(int, int) {})
	if err != nil || len(rows) != 1 {
		t.Fatal(err)
	}
	// At a constant price all starts give the same.
	if r := rows[0]; f.Cost.Low != r.Cost || f.Cost.High != r.Cost || f.Time.Low != r.Runtime || f.Time.High != r.Runtime {
		t.Errorf("%+v, by the dry run %s in %s", f, r.Cost, r.Runtime)
	}
}

// If the market is so fast that machines start for hours, each run lasts for weeks of market time: few are simulated.
func TestPastOfAFastMarketIsShort(t *testing.T) {
	cfg, in := pastJob(t, always)
	cfg.FLOPSPerVCPU *= 10_000 / cfg.Timing.Speed
	cfg.Timing.Speed, cfg.Settings.Speed, cfg.Settings.Startup = 10_000, 10_000, 2*time.Hour
	if f := estimate(t, cfg, in); !strings.HasPrefix(f.Basis, "33 past starts, one every 21h") {
		t.Errorf("%+v", f)
	}
}

// TestPastDoesNotKnowTheFuture: prices after the plan is made change nothing.
func TestPastDoesNotKnowTheFuture(t *testing.T) {
	restless := func(h int) int { return 40 + 5*(h%3) }
	before, in := pastJob(t, restless)
	after, _ := pastJob(t, func(h int) int {
		if h > 0 {
			return 9000
		}
		return restless(h)
	})
	if a, b := estimate(t, before, in), estimate(t, after, in); a != b {
		t.Errorf("%+v, with dear prices to come %+v", a, b)
	}
}

func TestPastNeedsHistory(t *testing.T) {
	cfg, in := pastJob(t, always)
	points := cfg.Pools[0].History.Points(cfg.Start.Add(-12*time.Hour), cfg.Start)
	cfg.Pools[0].History = market.NewHistory(points)
	if f := estimate(t, cfg, in); f.Cost.Known || f.Time.Known || !strings.Contains(f.Basis, "past starts of this run, and 24 are needed") {
		t.Errorf("%+v", f)
	}
	cfg.Pools[0].History = nil
	if f := estimate(t, cfg, in); f.Cost.Known || !strings.Contains(f.Basis, "no price history") {
		t.Errorf("%+v", f)
	}
}

// Overhead of clocks counts: if it makes a run longer than the recorded past, nothing is simulated.
func TestPastOfMostlyOverhead(t *testing.T) {
	cfg, in := pastJob(t, always)
	cfg.Timing.Clock = 6 * time.Hour // for each of 4 machines and 40 clocks: 40 days
	began := false
	f, err := Past{Job: cfg, Progress: func(int, int) { began = true }}.Estimate(in)
	if err != nil || began || f.Cost.Known || !strings.Contains(f.Basis, "no price history goes back far enough") {
		t.Errorf("%+v, %v; simulated: %v", f, err, began)
	}
}

// TestPastCountsWhatDidNotFinish: if nothing can be bought the reliable machine works alone, and later starts are cut off where the known
// prices end.
func TestPastCountsWhatDidNotFinish(t *testing.T) {
	cfg, in := pastJob(t, func(int) int { return 9000 })
	f := estimate(t, cfg, in)
	calm, _ := pastJob(t, always)
	if c := estimate(t, calm, in); f.Time.Known && f.Time.Middle <= c.Time.Middle {
		t.Errorf("%+v, in a calm market %+v", f, c)
	}
}

// TestPastEvictions: lost machines cost time.
func TestPastEvictions(t *testing.T) {
	calm, in := pastJob(t, always)
	stormy, _ := pastJob(t, func(h int) int {
		if h%2 == 0 {
			return 9000
		}
		return 40
	})
	if a, b := estimate(t, calm, in), estimate(t, stormy, in); !b.Time.Known || b.Time.Middle <= a.Time.Middle {
		t.Errorf("calm %+v, stormy %+v", a.Time, b.Time)
	}
}
