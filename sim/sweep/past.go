package sweep

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sim"
)

// Past estimates a plan's cost and time from what the same job would have met in the preceding weeks: it simulates the
// job unchanged, from many starts, at the prices known when it is planned, and projects the results to the day's
// prices. If machines are reclaimed for reasons other than prices, and past prices tell no more than today's, all runs
// start now. It is the plan's planner.Estimator, and uses the same engine as the dry run.
type Past struct {
	Job      sim.Config    // from ForJob
	Every    time.Duration // between two starts; 0 = 4h, for large fleets 12h, less if the history is short
	Lookback time.Duration // from the first start to the last; 0 = 28 days
	// Progress, if not nil, is called from several goroutines with the number of starts done.
	Progress func(done, total int)
	size     float64 // machines per bundle if Job is already in bundles; 0 = it is not
}

// Estimate simulates the past. The last start lies a little more than the undisturbed time before now, so that most
// runs end before the known prices do; the others are extrapolated at their own pace, as leaving them out would favour
// fast ones. The job's script is left out: it belongs to the job's own start.
func (p Past) Estimate(in planner.Input) (planner.Forecast, error) {
	cfg, size := p.Job, p.size
	if size == 0 {
		cfg, size = bundled(cfg)
	}
	cfg.Faults, cfg.MaxDuration, cfg.Overspends, cfg.Record = nil, 0, true, nil
	cfg.Pools = knownUntil(cfg.Pools, in.Now)
	lag := undisturbed(&cfg) * 23 / 20
	lookback, recent := cmp.Or(p.Lookback, 28*24*time.Hour), in.Now.Add(-lag)
	every := cmp.Or(p.Every, betweenStarts(usualRuns(&cfg, size), min(lookback, recent.Sub(firstPrice(cfg.Pools)))))
	last := recent.Truncate(every)
	var starts []time.Time
	unrecorded := 0
	for start := last; !start.Before(last.Add(-lookback)) && anyPriceAt(cfg.Pools, start); start = start.Add(-every) {
		if meetsHole(&cfg, start) {
			unrecorded++
			continue
		}
		starts = append(starts, start)
	}
	o := planner.Outcomes{Starts: len(starts), Start: in.Now, Level: levelAt(&cfg, in.Now), Lag: lag}
	ids := drawsOf(&cfg, starts, lag, in.Now, size)
	if len(ids) >= planner.MinStarts { // too few tell nothing, and need not be simulated
		var err error
		if o.Runs, err = simulate(cfg, ids, in.Now, p.Progress); err != nil {
			return planner.Forecast{}, fmt.Errorf("simulating past starts: %w", err)
		}
		slices.Reverse(o.Runs)
		o.Now = ids[0].now
	}
	for i := range o.Runs {
		o.Runs[i].Evictions = int(float64(o.Runs[i].Evictions)*size + 0.5)
	}
	return withBasis(o.Forecast(every), &cfg, unrecorded, size), nil
}

// levelAt returns the price of the job's work at a time: on the cheapest pool, at most on demand.
func levelAt(cfg *sim.Config, at time.Time) planner.Level {
	most := dollars(cfg.Equivalent.Type.OnDemand) / cfg.Equivalent.Type.WorkRate()
	l := planner.Level{Today: most, Usual: most}
	for _, p := range cfg.Pools {
		first, known := p.History.First()
		price, now := p.History.At(at)
		if p.OnDemand() || !known || !now || p.Type.WorkRate() <= 0 {
			continue
		}
		from := at.Add(-7 * 24 * time.Hour)
		if first.At.After(from) {
			from = first.At
		}
		usual, _ := p.History.Mean(from, at)
		l.Today = min(l.Today, dollars(price)/p.Type.WorkRate())
		l.Usual = min(l.Usual, dollars(usual)/p.Type.WorkRate())
	}
	return l
}

// firstPrice returns the time of the first known spot price.
func firstPrice(pools []bidding.Candidate) (first time.Time) {
	for _, p := range pools {
		if begin, known := p.History.First(); known && !p.OnDemand() && (first.IsZero() || begin.At.Before(first)) {
			first = begin.At
		}
	}
	return first
}

// withBasis adds to a forecast's description what it omits, and why its machines are reclaimed.
func withBasis(f planner.Forecast, cfg *sim.Config, unrecorded int, size float64) planner.Forecast {
	if size > 1 {
		f.Basis += fmt.Sprintf("; machines in bundles of %.3g", size)
	}
	if unrecorded > 0 {
		f.Basis += fmt.Sprintf("; %d starts are left out, as prices were not recorded while they would have run", unrecorded)
	}
	if why := EvictionSource(cfg); why != "" {
		f.Basis += ". " + strings.TrimSuffix(why, ".")
	}
	return f
}

// betweenStarts returns the interval that spreads a number of starts over a period.
func betweenStarts(runs int, over time.Duration) time.Duration {
	return max(time.Hour, (over / time.Duration(runs)).Round(time.Hour))
}

// usualRuns returns the number of starts for a forecast. Bundles (of a size above 1) do not speed up policies that
// weigh many bids. If market time is so fast that machines take hours to start, each run covers weeks.
func usualRuns(cfg *sim.Config, size float64) int {
	switch {
	case cfg.Settings.Speed > 1 && cfg.Settings.Startup > time.Hour:
		return 32
	case size > 1:
		return bundledRuns
	}
	return 168
}

// fleet returns the most machines of any type that the job may want.
func fleet(cfg *sim.Config) (most int) {
	for _, p := range cfg.Pools {
		most = max(most, machines(cfg, p.Type))
	}
	return most
}

// machines returns how many of a type the job wants.
func machines(cfg *sim.Config, t market.InstanceType) int {
	if cfg.Want.VCPU > 0 && t.VCPU > 0 {
		return (cfg.Want.VCPU + t.VCPU - 1) / t.VCPU
	}
	return cfg.Want.Machines
}

// meetsHole reports whether a pool's prices were not recorded at some time during the undisturbed work.
func meetsHole(cfg *sim.Config, start time.Time) bool {
	end := start.Add(undisturbed(cfg))
	return slices.ContainsFunc(cfg.Pools, func(p bidding.Candidate) bool {
		return slices.ContainsFunc(p.History.Holes(), func(h market.Hole) bool { return h.From.Before(end) && h.To.After(start) })
	})
}

// simulate runs a job, the latest start first, on all cores; all runs except those from now on end by a time.
func simulate(cfg sim.Config, ids []trialID, until time.Time, progress func(done, total int)) ([]planner.Run, error) {
	runs, errs := make([]planner.Run, len(ids)), make([]error, len(ids))
	var next, finished atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(ids)) {
		workers.Go(func() {
			cfg := cfg
			cfg.Policy = caching(cfg.Policy, newRecollection(until.Sub(ids[len(ids)-1].start))) // per worker
			for i := next.Add(1) - 1; i < int64(len(ids)); i = next.Add(1) - 1 {
				id, one := ids[i], cfg
				one.Start, one.Horizon, one.Hazard = id.start, until.Sub(id.start), cfg.Hazard.Draw(id.draw)
				if id.now {
					one = atPricesOf(one, id.start)
					one.Horizon = Horizon(max(ComputeTime(&cfg), undisturbed(&cfg)))
				}
				if !one.Deadline.IsZero() {
					one.Deadline = id.start.Add(one.Deadline.Sub(until))
				}
				r, err := sim.Run(one)
				runs[i], errs[i] = paced(runOf(r), &one, r), err
				runs[i].Start, runs[i].Level = id.start, levelAt(&cfg, id.start)
				if progress != nil {
					progress(int(finished.Add(1)), len(ids))
				}
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// undisturbed returns the time with the wanted machines of the slowest type, or with the reliable ones if the job wants
// no others. It includes each clock's overhead apart from computing, which dominates with many machines on one host.
func undisturbed(cfg *sim.Config) time.Duration {
	var longest time.Duration
	for _, p := range cfg.Pools {
		if n := machines(cfg, p.Type); n > 0 && p.Type.WorkRate() > 0 {
			length, _ := cfg.Undisturbed(n, p.Type.WorkRate())
			longest = max(longest, length)
		}
	}
	if longest == 0 {
		longest, _ = cfg.Undisturbed(cfg.Reliable.Count, cfg.Reliable.Type.WorkRate())
	}
	t := &cfg.Timing
	return 2*(t.Launch+t.Boot+t.Start+t.Load) + longest // the reliable machines come first
}

func anyPriceAt(pools []bidding.Candidate, at time.Time) bool {
	return slices.ContainsFunc(pools, func(c bidding.Candidate) bool {
		_, known := c.History.At(at)
		return known && !c.OnDemand()
	})
}

// Predict simulates the job's own run on the fake cloud, from its start, at the prices that a recording has for it.
// Only prices and the job's script take machines there.
func Predict(cfg sim.Config) (planner.Run, error) {
	cfg.Hazard = nil
	cfg.Policy = caching(cfg.Policy, newRecollection(time.Hour))
	r, err := sim.Run(cfg)
	run := runOf(r)
	run.Done = doneOf(&cfg, r)
	return run, err
}

// pacedFrom is the part of the work that a run must have done to extrapolate the rest from its pace.
const pacedFrom = .5

// paced extrapolates a run that was cut off by the end of the known prices at its own pace.
func paced(run planner.Run, cfg *sim.Config, r sim.Result) planner.Run {
	done := doneOf(cfg, r)
	if run.Finished || r.Outcome == "failed" || done < pacedFrom || done > 1 {
		return run
	}
	run.Finished, run.Paced = true, true
	run.Cost, run.Time = market.USD(float64(run.Cost)/done), time.Duration(float64(run.Time)/done)
	return run
}

// doneOf returns the share of the work that a run did.
func doneOf(cfg *sim.Config, r sim.Result) float64 {
	if cfg.Programs != nil {
		return r.Saved
	}
	return float64(r.Clocks) / float64(cfg.Job.Clocks)
}

func runOf(r sim.Result) planner.Run {
	return planner.Run{Time: r.Runtime, Cost: r.Cost, Finished: r.Finished(), Evictions: r.Evictions, Bought: r.Bought, Why: r.Why}
}
