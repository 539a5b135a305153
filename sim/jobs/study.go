package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/sched"
)

// Study compares schedulers on the same jobs, each with each source of machines: each run draws new jobs, and begins
// elsewhere in the market.
type Study struct {
	Schedulers []string // by name
	Buyers     []Buyer
	Runs       int
	Seed       uint64
	// Sweep: the jobs are trials of one search, of which schedulers may stop the worst. Otherwise all run to the end.
	Sweep bool
	Draw  func(seed uint64) ([]Script, error)
	// Resize is how long a job is stopped when it is resized by the calls, Restart by checkpoint and restart, in
	// seconds.
	Resize, Restart float64
	PlanEvery       float64
	Horizon         float64
	// Slacks are jobs' times to their deadlines, in turn, as multiples of their times alone as submitted; none = no
	// deadlines.
	Slacks []float64
}

// Buyer is a source of machines: a fixed cluster, or a market with the times at which runs begin.
type Buyer struct {
	Name   string
	Hosts  []sched.Host
	Market *Market
	Starts []time.Time // one per run
	Mean   bool        // constantly as many vCPUs as the market would hold on average, in each run, if it followed the jobs
}

// Cell has the results of one scheduler on one buyer's machines, over all runs. Times are in hours, money in dollars.
type Cell struct {
	Scheduler     string `json:"scheduler"`
	Buyer         string `json:"machines"`
	Runs          int    `json:"runs"`
	Jobs          Figure `json:"jobs"`
	Finished      Figure `json:"finished"`
	Stopped       Figure `json:"stopped"`
	Left          Figure `json:"left"` // neither finished nor stopped
	Ended         Figure `json:"ended_hours"`
	Met           Figure `json:"deadlines_met"`
	Completion    Figure `json:"completion_hours"`
	CompletionP95 Figure `json:"completion_p95_hours"`
	Least         Figure `json:"completion_bound_hours"`
	Feedback      Figure `json:"feedback_hours"`
	LeastFeedback Figure `json:"feedback_bound_hours"`
	Makespan      Figure `json:"makespan_hours"`
	Best          Figure `json:"best_hours"`
	Dollars       Figure `json:"usd"`
	LeastDollars  Figure `json:"usd_bound"`
	Unfair        Figure `json:"fairness_loss"`
	Unsolved      Figure `json:"unsolved"` // share of all plans
	Used          Figure `json:"utilisation"`
	UnitHours     Figure `json:"slot_hours"`
	Resizes       Figure `json:"resizes"`
	Still         Figure `json:"resizing_share"`
	Machines      Figure `json:"machines_bought"`
	Evictions     Figure `json:"evictions"`
	GivenUp       int    `json:"given_up"`
}

// Figure is a mean over runs, and half of its 95 % interval by Student's t; NaN = unknown.
type Figure struct{ Mean, Half float64 }

// MarshalJSON returns an object, or null when the mean is unknown.
func (f Figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(f.Mean) {
		return []byte("null"), nil
	}
	half := &f.Half
	if math.IsNaN(f.Half) {
		half = nil
	}
	return json.Marshal(struct {
		Mean float64  `json:"mean"`
		Half *float64 `json:"half"`
	}{f.Mean, half})
}

// FigureOf returns the figure for some values.
func FigureOf(x []float64) Figure {
	f := Figure{mean(x), math.NaN()}
	if len(x) < 2 {
		return f
	}
	square := 0.
	for _, v := range x {
		square += (v - f.Mean) * (v - f.Mean)
	}
	n := float64(len(x))
	f.Half = distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(.975) * math.Sqrt(square/(n-1)/n)
	return f
}

// staticSchedulers resize nothing, or only by checkpoint and restart: their jobs, on losing a machine, wait for the
// whole request.
var staticSchedulers = map[string]bool{"fifo": true, "asha": true}

// Scheduler returns the scheduler with a name, for a sweep or for jobs that all run to the end.
func Scheduler(name string, sweep bool) (sched.Policy, error) {
	p, err := sched.ByName(name)
	if err != nil || sweep {
		return p, err
	}
	if _, stops := p.(sched.ASHA); stops {
		return nil, fmt.Errorf("scheduler %s stops trials of a search, and these jobs are to end: it is for sweeps", name)
	}
	return p, nil
}

// config returns the configuration of one run.
func (s *Study) config(scheduler string, buyer *Buyer, run int) (Config, error) {
	c := Config{Seed: s.Seed + uint64(run), PlanEvery: s.PlanEvery, Horizon: s.Horizon, Hosts: buyer.Hosts, Gang: staticSchedulers[scheduler],
		Known: scheduler == "marginal" || scheduler == "deadline",
		Costs: Costs{Start: 5, Resize: s.Resize, Resume: s.Resize}}
	if scheduler == "kill" || scheduler == "fifo" {
		c.Costs.Resize, c.Costs.Resume, c.Costs.Release = s.Restart, s.Restart, s.Restart/2
	}
	var err error
	if c.Policy, err = Scheduler(scheduler, s.Sweep); err != nil {
		return c, err
	}
	if c.Jobs, err = s.Draw(c.Seed); err != nil {
		return c, err
	}
	for i := range c.Jobs {
		if j := &c.Jobs[i]; len(s.Slacks) > 0 {
			j.Deadline = j.Arrives + s.Slacks[i%len(s.Slacks)]*j.Total*j.Clock.Seconds(j.Workers, j.Servers)
		}
	}
	if buyer.Market != nil {
		m := *buyer.Market
		m.Start = buyer.Starts[run]
		if cost, ok := m.Policy.(bidding.CostPerWork); ok {
			cost.Memo = &memo{known: map[any]any{}}
			m.Policy = cost
		}
		c.Market = &m
		if buyer.Mean {
			if err := c.fixAtMean(); err != nil {
				return c, err
			}
		}
	}
	c.fit()
	return c, nil
}

// fixAtMean makes the market hold constantly the average that it would hold if it followed the jobs.
func (c *Config) fixAtMean() error {
	follows := *c
	follows.Jobs = slices.Clone(c.Jobs)
	follows.fit()
	r, err := Run(follows)
	if err != nil {
		return err
	}
	fixed := *c.Market
	fixed.Most = min(max(int(math.Round(r.Bill.VCPUHours/(r.End/3600))), 1), fixed.Most)
	fixed.Least = fixed.Most
	c.Market = &fixed
	return nil
}

// fit reduces requests above the available total to that total: such jobs would block all others forever.
func (c *Config) fit() {
	for i := range c.Jobs {
		j := &c.Jobs[i]
		units := 0
		for _, h := range c.Hosts {
			units += int(h.Capacity[0]/j.Demand[0] + 1e-9)
		}
		if c.Market != nil {
			units = int(float64(c.Market.Most)/j.Demand[0] + 1e-9)
		}
		most := max(units-j.Servers-j.Overhead, 1)
		j.Workers = min(j.Workers, most)
		if j.MostWorkers > 0 {
			j.MostWorkers = min(j.MostWorkers, most)
		}
	}
}

// memo caches a policy's newest results within one run: a forecast of many pools takes megabytes, and time never goes
// back.
type memo struct {
	known map[any]any
	order []any // keys, oldest first
}

// mostKept is about an hour's forecasts: one for each wanted number of vCPUs.
const mostKept = 32

func (m *memo) Recall(key any, make func() any) any {
	v, ok := m.known[key]
	if !ok {
		if len(m.order) == mostKept {
			delete(m.known, m.order[0])
			m.order = m.order[1:]
		}
		v = make()
		m.known[key], m.order = v, append(m.order, key)
	}
	return v
}

// Run gives the cells in the order of buyers and schedulers, whatever the number of cores. Progress is called from several goroutines.
func (s *Study) Run(ctx context.Context, progress func(done, total int)) ([]Cell, error) {
	type task struct{ buyer, scheduler, run int }
	var tasks []task
	for b := range s.Buyers {
		for k := range s.Schedulers {
			for r := range s.Runs {
				tasks = append(tasks, task{b, k, r})
			}
		}
	}
	type outcome struct {
		Summary
		givenUp bool
	}
	results := make([]outcome, len(tasks))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next, finished atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(tasks)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(tasks)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				t := tasks[i]
				cfg, err := s.config(s.Schedulers[t.scheduler], &s.Buyers[t.buyer], t.run)
				var r Result
				if err == nil {
					r, err = Run(cfg)
				}
				if err != nil {
					stop(err)
					return
				}
				results[i] = outcome{Sum(&cfg, &r), r.GivenUp}
				progress(int(finished.Add(1)), len(tasks))
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var cells []Cell
	for i := 0; i < len(tasks); i += s.Runs {
		t := tasks[i]
		c := Cell{Scheduler: s.Schedulers[t.scheduler], Buyer: s.Buyers[t.buyer].Name, Runs: s.Runs}
		var all []Summary
		for _, r := range results[i : i+s.Runs] {
			all = append(all, r.Summary)
			if r.givenUp {
				c.GivenUp++
			}
		}
		c.fill(all, s.Buyers[t.buyer].Market != nil)
		cells = append(cells, c)
	}
	return cells, nil
}

func (c *Cell) fill(all []Summary, bought bool) {
	figure := func(of func(*Summary) float64) Figure {
		var x []float64
		for i := range all {
			x = append(x, of(&all[i]))
		}
		return FigureOf(x)
	}
	const hour = 3600
	c.Jobs = figure(func(s *Summary) float64 { return float64(s.Jobs) })
	c.Finished = figure(func(s *Summary) float64 { return float64(s.Finished) })
	c.Stopped = figure(func(s *Summary) float64 { return float64(s.Killed) })
	c.Left = figure(func(s *Summary) float64 { return float64(s.Left) })
	c.Ended = figure(func(s *Summary) float64 { return s.Ended / hour })
	c.Met = figure(func(s *Summary) float64 { return s.Met })
	c.Unsolved = figure(func(s *Summary) float64 { return s.Unsolved })
	c.Completion = figure(func(s *Summary) float64 { return s.Mean / hour })
	c.CompletionP95 = figure(func(s *Summary) float64 { return s.P95 / hour })
	c.Least = figure(func(s *Summary) float64 { return s.LeastMean / hour })
	c.Feedback = figure(func(s *Summary) float64 { return s.Feedback / hour })
	c.LeastFeedback = figure(func(s *Summary) float64 { return s.LeastBack / hour })
	c.Makespan = figure(func(s *Summary) float64 { return s.Makespan / hour })
	c.Best = figure(func(s *Summary) float64 { return s.Best / hour })
	c.Unfair = figure(func(s *Summary) float64 { return s.Unfair })
	c.Used = figure(func(s *Summary) float64 { return s.Used })
	c.UnitHours = figure(func(s *Summary) float64 { return s.UnitHours })
	c.Resizes = figure(func(s *Summary) float64 { return s.Resizes })
	c.Still = figure(func(s *Summary) float64 { return s.Still })
	unknown := Figure{math.NaN(), math.NaN()}
	c.Dollars, c.LeastDollars, c.Machines, c.Evictions = unknown, unknown, unknown, unknown
	if bought {
		c.Dollars = figure(func(s *Summary) float64 { return dollars(s.Bill.Total()) })
		c.LeastDollars = figure(func(s *Summary) float64 { return dollars(s.LeastDollars + s.Bill.Reliable) })
		c.Machines = figure(func(s *Summary) float64 { return float64(s.Bill.Machines) })
		c.Evictions = figure(func(s *Summary) float64 { return float64(s.Bill.Evictions) })
	}
}
