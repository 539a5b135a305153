// Package sweep runs one job from many starts, by many policies, on all cores, and sums up what came of it. It knows
// how a job file becomes a simulation; it refuses to know what a screen looks like.
package sweep

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/sim"
)

// Plan is what to run: every policy with every length from every start.
type Plan struct {
	Job      sim.Config // as ForJob makes it
	Policies []string   // names of bidding.ByName
	// Hours are the lengths, in compute time on the on-demand fleet, on EC2's timing; none = the job as it stands.
	Hours  []time.Duration
	Starts Starts
}

// Row is one run of a Plan.
type Row struct {
	Policy  string
	Rules   string
	Compute time.Duration // of the work on the on-demand fleet, undisturbed
	// OnDemand is what that costs, in dollars.
	OnDemand float64
	sim.Result
}

// block is some consecutive starts of one policy and length.
type block struct {
	cfg    sim.Config
	row    Row
	starts []time.Time
	first  int           // index of the first row
	within time.Duration // until the deadline, for policies that keep one
	// same: what comes of a start does not depend on when it is, as on demand: it is simulated once for all of them.
	same bool
}

// blockLength is how many consecutive starts one worker takes at a time: enough that taking one costs nothing, few
// enough that all cores are busy to the end.
const blockLength = 32

// Run simulates all runs of a plan. Rows are in the order of lengths, policies and starts, whatever the number of cores.
// When ctx is done it gives those that are done, in that order, with ctx's error. Progress is called from several
// goroutines with the number of runs that are done.
func Run(ctx context.Context, p Plan, progress func(done, total int)) ([]Row, error) {
	blocks, total, err := p.blocks()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	rows, done := make([]Row, total), make([]bool, total)
	var next, finished atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(blocks)) {
		workers.Go(func() {
			var err error
			recalled := recollection{}
			for i := next.Add(1) - 1; i < int64(len(blocks)); i = next.Add(1) - 1 {
				b := &blocks[i]
				b.cfg.Policy = remembering(b.cfg.Policy, recalled)
				for n, start := range b.starts {
					if ctx.Err() != nil {
						return
					}
					row := b.row
					if b.same && n > 0 {
						row.Result, row.Start = rows[b.first].Result, start
					} else if row.Result, err = b.run(start); err != nil {
						stop(err)
						return
					}
					rows[b.first+n], done[b.first+n] = row, true
					progress(int(finished.Add(1)), total)
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() == nil {
		return rows, nil
	}
	var some []Row
	for i := range rows {
		if done[i] {
			some = append(some, rows[i])
		}
	}
	return some, context.Cause(ctx)
}

func (b *block) run(start time.Time) (sim.Result, error) {
	cfg := b.cfg
	cfg.Start = start
	if _, ok := cfg.Policy.(bidding.ByRestart); ok {
		cfg.Deadline = start.Add(b.within)
	}
	return sim.Run(cfg)
}

// blocks cuts a plan into pieces of work.
func (p Plan) blocks() (out []block, total int, err error) {
	for _, cfg := range p.lengths() {
		starts, err := p.Starts.times(&cfg)
		if err != nil {
			return nil, 0, err
		}
		for _, name := range p.Policies {
			policy, err := bidding.ByName(name)
			if err != nil {
				return nil, 0, err
			}
			row := Row{
				Policy: name, Rules: cfg.Rules.Name(), Compute: ComputeTime(&cfg),
				OnDemand: dollars(OnDemandCost(&cfg)),
			}
			_, same := policy.(bidding.OnDemand)
			for chunk := range slices.Chunk(starts, blockLength) {
				out = append(out, block{cfg: withPolicy(cfg, policy), row: row, starts: chunk, first: total, same: same, within: deadlineWithin(&cfg)})
				total += len(chunk)
			}
		}
	}
	return out, total, nil
}

func (p Plan) lengths() []sim.Config {
	if len(p.Hours) == 0 {
		return []sim.Config{p.Job}
	}
	var out []sim.Config
	for _, compute := range p.Hours {
		out = append(out, OnEC2(p.Job, compute))
	}
	return out
}
