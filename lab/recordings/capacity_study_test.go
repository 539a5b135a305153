package recordings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/sim/sweep"
)

// Capacity is a comparison, on recorded prices, of the policy capacity over all pools of a job with the same job kept to
// one zone or to one pool. Recordings of availability, made at other times and places, are laid over the pools in several
// ways (layouts): which pool gets which recording, and from where in it, is drawn by the seed. It therefore compares
// policies; it predicts no bill.
type Capacity struct {
	Job        sim.Config // with its spot pools, and work, timing and horizon as sweep.OnEC2 gives them
	Recordings []*market.Availability
	Layouts    int
	Starts     int // of each layout; those of all layouts are spread over the prices
	Seed       uint64
}

// Option is one way to run the job, over all starts. Shares are of what the work costs on demand.
type Option struct {
	Name     string // "all pools", a zone, or a type in a zone
	Policy   string
	Pools    int
	Starts   int
	Finished int
	// PerFinished is all money spent, also by runs that did not finish, per finished run; infinite when none finished.
	PerFinished float64
	// PerWork is all money spent per work done, also by runs that did not finish.
	PerWork     float64
	RuntimeMean time.Duration // of those that finished
	Evictions   float64       // per start
	// Low and High hold 90 % of what PerFinished differs by from the first choice's, by a bootstrap over layouts: runs are
	// paired by start, and the starts of a layout share its availability.
	Low, High float64
	runs      []sim.Result
}

// Run returns first capacity over all pools, then capacity in each zone and in each pool, then tierml in each pool; the same
// whatever the number of cores. Progress is called from several goroutines.
func (c Capacity) Run(ctx context.Context, progress func(done, total int)) ([]Option, error) {
	choices, err := c.choices()
	if err != nil {
		return nil, err
	}
	layouts, starts, err := c.draw()
	if err != nil {
		return nil, err
	}
	total := len(choices) * len(starts)
	for i := range choices {
		choices[i].runs = make([]sim.Result, len(starts))
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next, finished atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), total) {
		workers.Go(func() {
			for i := int(next.Add(1) - 1); i < total && ctx.Err() == nil; i = int(next.Add(1) - 1) {
				choice, n := &choices[i/len(starts)], i%len(starts)
				var err error
				if choice.runs[n], err = c.run(choice, layouts[n%c.Layouts], starts[n]); err != nil {
					stop(fmt.Errorf("%s by %s: %w", choice.Name, choice.Policy, err))
					return
				}
				progress(int(finished.Add(1)), total)
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	onDemand := dollars(sweep.OnDemandCost(&c.Job))
	for i := range choices {
		choices[i].sum(onDemand, float64(c.Job.Job.Clocks))
	}
	for i := range choices[1:] {
		choices[1+i].compare(&choices[0], c.Layouts, onDemand, c.Seed)
	}
	return choices, nil
}

// choices are all ways to run the job.
func (c Capacity) choices() ([]Option, error) {
	if len(c.Recordings) == 0 || c.Layouts < 1 || c.Starts < 1 {
		return nil, errors.New("it needs recordings of availability, layouts and starts")
	}
	const policy = "capacity"
	out := []Option{{Name: "all pools", Policy: policy}}
	var zones, pools []string
	for _, p := range c.Job.Pools {
		if p.OnDemand() {
			continue
		}
		zones = append(zones, p.Pool.Zone)
		pools = append(pools, poolName(p.Pool))
	}
	slices.Sort(zones)
	for _, name := range append(slices.Compact(zones), pools...) {
		out = append(out, Option{Name: name, Policy: policy})
	}
	for _, name := range pools {
		out = append(out, Option{Name: name, Policy: "tierml"})
	}
	for i := range out {
		for _, p := range c.Job.Pools {
			if !p.OnDemand() && out[i].has(p.Pool) {
				out[i].Pools++
			}
		}
	}
	return out, nil
}

func poolName(p market.Pool) string { return p.Type + " in " + p.Zone }

func (c *Option) has(p market.Pool) bool {
	return c.Name == "all pools" || c.Name == p.Zone || c.Name == poolName(p)
}

// draw returns the layouts, each with the availability of every pool of the job, and the starts of all: start n is
// one of layout n modulo Layouts.
func (c Capacity) draw() (layouts [][]*market.Availability, starts []time.Time, err error) {
	starts, err = sweep.Starts{Count: c.Layouts * c.Starts, Seed: c.Seed}.Times(&c.Job)
	if err != nil {
		return nil, nil, err
	}
	if len(starts) < c.Layouts*c.Starts {
		return nil, nil, fmt.Errorf("the prices have room for %d starts", len(starts))
	}
	begin := starts[0].Add(-7 * 24 * time.Hour) // the history before a start
	end := starts[len(starts)-1].Add(c.Job.Horizon)
	random := rand.New(rand.NewPCG(c.Seed, 4))
	for range c.Layouts {
		layout := make([]*market.Availability, len(c.Job.Pools))
		var left []int // recordings that no pool has yet
		for i := range c.Job.Pools {
			if c.Job.Pools[i].OnDemand() {
				continue
			}
			if len(left) == 0 {
				left = random.Perm(len(c.Recordings))
			}
			kind := c.Job.Pools[i].Type
			machines := cmp.Or(c.Job.Want.Machines, (c.Job.Want.VCPU+kind.VCPU-1)/max(kind.VCPU, 1))
			layout[i], err = sweep.LaidOver(c.Recordings[left[0]], machines, begin, end, random.Float64())
			if err != nil {
				return nil, nil, err
			}
			left = left[1:]
		}
		layouts = append(layouts, layout)
	}
	return layouts, starts, nil
}

func (c Capacity) run(choice *Option, layout []*market.Availability, start time.Time) (sim.Result, error) {
	policy, err := bidding.ByName(choice.Policy)
	if err != nil {
		return sim.Result{}, err
	}
	cfg := sweep.WithPolicy(c.Job, policy)
	cfg.Start, cfg.Pools = start, nil
	for i, p := range c.Job.Pools {
		if p.OnDemand() || choice.has(p.Pool) {
			p.Availability = layout[i]
			cfg.Pools = append(cfg.Pools, p)
		}
	}
	return sim.Run(cfg)
}

func (c *Option) sum(onDemand, clocks float64) {
	var spent, done float64
	var hours time.Duration
	for i := range c.runs {
		r := &c.runs[i]
		spent += dollars(r.Cost)
		done += float64(r.Clocks) / clocks
		c.Evictions += float64(r.Evictions) / float64(len(c.runs))
		if r.Finished() {
			c.Finished++
			hours += r.Runtime
		}
	}
	c.Starts = len(c.runs)
	c.PerFinished, c.PerWork = math.Inf(1), spent/onDemand/done
	if c.Finished > 0 {
		c.PerFinished = spent / onDemand / float64(c.Finished)
		c.RuntimeMean = hours / time.Duration(c.Finished)
	}
}

// resamples is of how many draws the bootstrap consists.
const resamples = 2000

// compare finds where 90 % of the difference from another choice lie.
func (c *Option) compare(to *Option, layouts int, onDemand float64, seed uint64) {
	mine, theirs := c.byLayout(layouts), to.byLayout(layouts)
	random := rand.New(rand.NewPCG(seed, 5))
	differences := make([]float64, resamples)
	for i := range differences {
		var a, b spending
		for range layouts {
			k := random.IntN(layouts)
			a.add(mine[k])
			b.add(theirs[k])
		}
		differences[i] = a.each()/onDemand - b.each()/onDemand
	}
	slices.Sort(differences)
	c.Low, c.High = differences[resamples/20], differences[resamples-1-resamples/20]
}

// spending is what some runs cost, and how many finished.
type spending struct{ spent, finished float64 }

func (s *spending) add(o spending) { s.spent, s.finished = s.spent+o.spent, s.finished+o.finished }

func (s *spending) each() float64 {
	if s.finished == 0 {
		return math.MaxFloat32 // not infinite, so that differences of two are numbers
	}
	return s.spent / s.finished
}

func (c *Option) byLayout(layouts int) []spending {
	out := make([]spending, layouts)
	for i := range c.runs {
		s := spending{spent: dollars(c.runs[i].Cost)}
		if c.runs[i].Finished() {
			s.finished = 1
		}
		out[i%layouts].add(s)
	}
	return out
}
