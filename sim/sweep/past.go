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

// Past estimates what a plan would cost and how long it would take by what the same job would have met in the week before:
// it is simulated as it stands, from many starts, in the prices that are known when it is planned. It is the plan's
// planner.Estimator, and the same engine as the dry run's.
type Past struct {
	Job      sim.Config    // as ForJob makes it
	Every    time.Duration // between two starts; 0 = 1h, of large fleets 3h
	Lookback time.Duration // from the first start to the last; 0 = 7 days: one of each weekday
	// Progress, if not nil, is called from several goroutines with the number of starts that are done.
	Progress func(done, total int)
	size     float64 // of the bundles that Job is in already; 0 = it is not
}

// Estimate simulates the past. The last start lies twice the undisturbed time before now, so that nearly every run ends
// before the known prices do: leaving out those that do not would favour quick ones. What the job's script does is left out:
// it belongs to the job's own start.
func (p Past) Estimate(in planner.Input) (planner.Forecast, error) {
	cfg, size := p.Job, p.size
	if size == 0 {
		cfg, size = bundled(cfg)
	}
	every, lookback := cmp.Or(p.Every, betweenStarts(size)), cmp.Or(p.Lookback, 7*24*time.Hour)
	cfg.Faults, cfg.MaxDuration, cfg.Record = nil, 0, nil
	cfg.Pools = slices.Clone(cfg.Pools)
	for i := range cfg.Pools {
		cfg.Pools[i].History = cfg.Pools[i].History.Until(in.Now)
		cfg.Pools[i].Availability = cfg.Pools[i].Availability.Until(in.Now)
	}
	last := in.Now.Add(-2 * undisturbed(&cfg)).Truncate(time.Second)
	var starts []time.Time
	unrecorded := 0
	for start := last; !start.Before(last.Add(-lookback)) && anyPriceAt(cfg.Pools, start); start = start.Add(-every) {
		if meetsHole(&cfg, start) {
			unrecorded++
			continue
		}
		starts = append(starts, start)
	}
	told := func(f planner.Forecast) planner.Forecast { return told(f, &cfg, unrecorded, size) }
	if len(starts) < planner.MinStarts { // too few say nothing: they need not be simulated
		return told(planner.Summarize(make([]planner.Run, len(starts)), last, last, every)), nil
	}
	runs, err := simulate(cfg, starts, in.Now, p.Progress)
	if err != nil {
		return planner.Forecast{}, fmt.Errorf("simulating past starts: %w", err)
	}
	for i := range runs {
		runs[i].Evictions = int(float64(runs[i].Evictions)*size + 0.5)
	}
	return told(planner.Summarize(runs, starts[len(starts)-1], starts[0], every)), nil
}

// told adds to a forecast's description what it omits, and why machines are taken in it.
func told(f planner.Forecast, cfg *sim.Config, unrecorded int, size float64) planner.Forecast {
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

// betweenStarts leaves a week more starts than a forecast needs. Bundles (of a size above 1) make no policy faster that weighs many bids.
func betweenStarts(size float64) time.Duration {
	if size > 1 {
		return 3 * time.Hour
	}
	return time.Hour
}

// fleet is the most machines that the job may want, of any of its types.
func fleet(cfg *sim.Config) (most int) {
	for _, p := range cfg.Pools {
		most = max(most, machines(cfg, p.Type))
	}
	return most
}

// machines is how many of a type the job wants.
func machines(cfg *sim.Config, t market.InstanceType) int {
	if cfg.Want.VCPU > 0 && t.VCPU > 0 {
		return (cfg.Want.VCPU + t.VCPU - 1) / t.VCPU
	}
	return cfg.Want.Machines
}

// meetsHole reports whether prices of a pool were not recorded while the undisturbed work would be done.
func meetsHole(cfg *sim.Config, start time.Time) bool {
	end := start.Add(undisturbed(cfg))
	return slices.ContainsFunc(cfg.Pools, func(p bidding.Candidate) bool {
		return slices.ContainsFunc(p.History.Holes(), func(h market.Hole) bool { return h.From.Before(end) && h.To.After(start) })
	})
}

// simulate runs a job from many starts until a time, on all cores.
func simulate(cfg sim.Config, starts []time.Time, until time.Time, progress func(done, total int)) ([]planner.Run, error) {
	runs, errs := make([]planner.Run, len(starts)), make([]error, len(starts))
	var next, finished atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(starts)) {
		workers.Go(func() {
			cfg := cfg
			cfg.Policy = caching(cfg.Policy, newRecollection(until.Sub(starts[len(starts)-1]))) // one worker's
			for i := next.Add(1) - 1; i < int64(len(starts)); i = next.Add(1) - 1 {
				one := cfg
				one.Start, one.Horizon = starts[i], until.Sub(starts[i])
				if !one.Deadline.IsZero() {
					one.Deadline = starts[i].Add(one.Deadline.Sub(until))
				}
				r, err := sim.Run(one)
				runs[i], errs[i] = runOf(r), err
				if progress != nil {
					progress(int(finished.Add(1)), len(starts))
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

// undisturbed is the time with the wanted machines of the type with which it takes longest, or with the reliable ones where
// nothing else is wanted. It includes what each clock takes beside computing, which decides with many machines on one host.
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

// Predict simulates the job's own run on the fake cloud, from its start, in the prices that a recording has for it. Nothing but
// prices and the job's script takes machines there.
func Predict(cfg sim.Config) (planner.Run, error) {
	cfg.Hazard = nil
	cfg.Policy = caching(cfg.Policy, newRecollection(time.Hour))
	r, err := sim.Run(cfg)
	return runOf(r), err
}

func runOf(r sim.Result) planner.Run {
	return planner.Run{Time: r.Runtime, Cost: r.Cost, Finished: r.Finished(), Evictions: r.Evictions}
}
