// Package sweep runs one job from many starts, with many policies, on all cores, and summarises the results. It
// knows how a job file becomes a simulation; it knows nothing about output.
package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/sim"
)

// Auto is the row that decides at each start from what was known then; see Chooser.
const Auto = config.Auto

// Experiment describes the runs: every policy with every length from every start.
type Experiment struct {
	Job sim.Config // from Maker.Base
	// By makes the job for a policy, as Maker.By does; nil = as in a study, which has no job file.
	By       func(policy string) (sim.Config, error)
	Policies []string // names of bidding.ByName, Auto and Oracle
	// Hours are the lengths, in compute time on the on-demand fleet, with EC2's timing; none = the job unchanged.
	Hours  []time.Duration
	Starts Starts
	// Replay has runs meet what the fake cloud would do from the job's own start: only prices and the script take
	// machines there.
	Replay bool
	// Regret fills in Row.Oracle even if the oracle is not among the policies.
	Regret bool
}

// Row is one run of an Experiment.
type Row struct {
	Policy  string
	Rules   string
	Compute time.Duration // of the undisturbed work on the on-demand fleet
	// OnDemand is the cost of that, in dollars.
	OnDemand float64
	// Oracle is the least that a run from that start could have cost, with the policy's reliable tier and the bids that
	// it may make. It is known if the experiment requests it and the oracle knows the market.
	Oracle      market.USD
	OracleKnown bool
	// TooLong reports that the run exceeded the job's max_duration, and TooDear that it exceeded its budget, at which a
	// real run is ended.
	TooLong, TooDear bool
	Done             float64 // share of the work
	sim.Result
}

// block is a series of consecutive starts of one policy and length.
type block struct {
	cfg    sim.Config
	row    Row
	starts []time.Time
	run    int           // number of its policy and length
	within time.Duration // time to the deadline, for policies that keep one
	timed  bool          // the policy keeps a deadline, whether the job has one or not
	limit  time.Duration // the job's max_duration, which a simulated run keeps only in a replay; 0 = none
	// same: the result does not depend on the start, as on demand: it is simulated once for all.
	same bool
	// bounds have the costs of the row's oracles, of which the least counts; offset is the index of the block's first
	// start in them.
	bounds []*bounds
	offset int
	seeing bool // the oracle's own block: it fills bounds
	replay bool // see Experiment
	// auto decides at each start which policy's block in by it is simulated with; nil = the block itself.
	auto *Chooser
	by   map[string]*block
}

// blockLength is how many consecutive starts a worker takes at a time: enough to make the overhead negligible, few
// enough to keep all cores busy to the end.
const blockLength = 32

// Run is Stream for experiments with few starts: it returns all rows.
func Run(ctx context.Context, p Experiment, progress func(done, total int)) (rows []Row, err error) {
	err = Stream(ctx, p, func(r Row) error {
		rows = append(rows, r)
		return nil
	}, progress)
	return rows, err
}

// Stream simulates all runs of an experiment and passes each row to take, one at a time, in the order of lengths,
// policies and starts, for any number of cores. Rows are not kept. When ctx is done, take gets the rows done until
// then, in that order, and Stream returns ctx's error; an error from take ends it. Progress is called from several
// goroutines with the number of runs done.
func Stream(ctx context.Context, p Experiment, take func(Row) error, progress func(done, total int)) error {
	blocks, total, err := p.blocks()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := newDelivery(blocks, take)
	var finished atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(blocks)) {
		workers.Go(func() {
			w := worker{recalled: newRecollection(p.longest()), same: map[way]sim.Result{}}
			for i, b := out.next(ctx); b != nil; i, b = out.next(ctx) {
				rows, err := w.work(ctx, b, func() { progress(int(finished.Add(1)), total) })
				if err = errors.Join(err, out.finish(i, rows)); err != nil {
					stop(err)
				}
			}
		})
	}
	workers.Wait()
	if err := out.rest(); err != nil {
		stop(err)
	}
	return context.Cause(ctx)
}

// worker is one of the workers that share an experiment's blocks.
type worker struct {
	recalled *pastCache
	same     map[way]sim.Result // for blocks whose starts all give the same result
}

// way is a policy and length, with the policy that Auto chose.
type way struct {
	run    int
	chosen string
}

// work returns the rows of a block; if ctx is done, those of its first starts.
func (w *worker) work(ctx context.Context, b *block, done func()) (rows []Row, err error) {
	if b.seeing {
		b.see(ctx)
		return nil, nil
	}
	for _, start := range b.starts {
		if ctx.Err() != nil {
			return rows, nil
		}
		row, by := b.row, b
		if IsOracle(b.row.Policy) {
			row.Start, row.Outcome = start, "finished"
		} else if row.Result, by, err = w.simulate(ctx, b, start); err != nil {
			if ctx.Err() != nil {
				return rows, nil
			}
			return rows, err
		}
		if row.Done = 1; !row.Finished() {
			row.Done = doneOf(&by.cfg, row.Result)
		}
		row.TooLong, row.TooDear = b.limit > 0 && row.Runtime > b.limit, by.cfg.Overspends && by.cfg.Budget > 0 && row.Cost > by.cfg.Budget
		rows = append(rows, row)
		done()
	}
	return rows, nil
}

// simulate returns the result from a start of a block, and the block that it was simulated with.
func (w *worker) simulate(ctx context.Context, b *block, start time.Time) (r sim.Result, by *block, err error) {
	key := way{run: b.run}
	by = b
	if b.auto != nil {
		choice, err := b.auto.At(ctx, start)
		if err != nil {
			return r, b, err
		}
		key.chosen, by = choice.Policy, b.by[choice.Policy]
	}
	if known, ok := w.same[key]; ok {
		known.Start = start
		return known, by, nil
	}
	one := *by
	one.cfg.Policy = caching(one.cfg.Policy, w.recalled)
	if r, err = one.simulate(start); err == nil && by.same {
		w.same[key] = r
	}
	return r, by, err
}

func (b *block) simulate(start time.Time) (sim.Result, error) {
	cfg := b.cfg
	cfg.Start = start
	if b.timed || !cfg.Deadline.IsZero() {
		cfg.Deadline = start.Add(b.within)
	}
	if b.replay {
		cfg.Hazard = nil
	}
	return sim.Run(cfg)
}

// blocks divides an experiment into pieces of work, the oracles' first.
func (p Experiment) blocks() (out []block, total int, err error) {
	var seeing []block
	refused := p.Refused()
	if len(refused) > 0 && len(refused) == len(p.Policies) {
		return nil, 0, refused[0].Why
	}
	for n, l := range p.lengths() {
		cfg := l.scale(p.Job)
		starts, err := p.Starts.Times(&cfg)
		if err != nil {
			return nil, 0, err
		}
		known := map[oracleKind]*bounds{}
		for i, name := range p.Policies {
			if slices.ContainsFunc(refused, func(r Refusal) bool { return r.Policy == name }) {
				continue
			}
			run, err := p.run(l, name)
			if err != nil {
				return nil, 0, err
			}
			if p.asksOracle() || IsOracle(name) {
				kinds, err := p.sights(name)
				if err != nil {
					return nil, 0, err
				}
				for _, kind := range kinds {
					if known[kind] == nil {
						var blocks []block
						if known[kind], blocks, err = foresee(&cfg, kind, starts); err != nil {
							return nil, 0, err
						}
						seeing = append(seeing, blocks...)
					}
					run.bounds = append(run.bounds, known[kind])
				}
			}
			run.run = n*len(p.Policies) + i
			for chunk := range slices.Chunk(starts, blockLength) {
				run.starts = chunk
				out = append(out, run)
				run.offset += len(chunk)
				total += len(chunk)
			}
		}
	}
	return append(seeing, out...), total, nil
}

// Refusal is a policy that cannot run the job, with the reason.
type Refusal struct {
	Policy string
	Why    error
}

// String formats the refusal in one line.
func (r Refusal) String() string { return r.Policy + ": " + why(r.Why) }

// Refused returns the policies that cannot run the job within its bounds.
func (p Experiment) Refused() (out []Refusal) {
	for _, name := range p.Policies {
		if IsOracle(name) || name == Auto {
			continue
		}
		if _, err := p.jobBy(name); err != nil {
			out = append(out, Refusal{name, err})
		}
	}
	return out
}

// jobBy returns the job for a policy.
func (p Experiment) jobBy(name string) (sim.Config, error) {
	if p.By != nil {
		return p.By(name)
	}
	return studied(p.Job)(name)
}

// jobOfLength returns the job of a length for a policy. The work is the same for all policies.
func (p Experiment) jobOfLength(l length, name string) (sim.Config, error) {
	cfg, err := p.jobBy(name)
	if err != nil {
		return cfg, err
	}
	cfg = l.scale(cfg)
	cfg.Job = l.scale(p.Job).Job
	return cfg, nil
}

// studied makes a study's job for a policy: on demand, its Equivalent.
func studied(job sim.Config) func(policy string) (sim.Config, error) {
	return func(name string) (sim.Config, error) {
		policy, err := bidding.ByName(name)
		if job.Programs != nil {
			policy, err = bidding.ForPrograms(name)
		}
		if err != nil {
			return job, err
		}
		return WithPolicy(job, policy), nil
	}
}

func (p Experiment) asksOracle() bool { return p.Regret || slices.Contains(p.Policies, Oracle) }

// run returns a policy's block, without starts.
func (p Experiment) run(l length, name string) (b block, err error) {
	cfg := l.scale(p.Job)
	b.row = Row{Policy: name, Rules: cfg.Rules.Name(), Compute: ComputeTime(&cfg), OnDemand: dollars(OnDemandCost(&cfg))}
	if IsOracle(name) {
		return b, nil
	}
	if len(p.Hours) == 0 {
		b.limit = p.Job.MaxDuration
	}
	if name == Auto {
		b.auto, b.by = NewChooser(cfg, func(name string) (sim.Config, error) { return p.jobOfLength(l, name) }, WishOf(&cfg, b.limit)), map[string]*block{}
		for _, k := range b.auto.candidates {
			if k.refused != nil {
				continue
			}
			by, err := p.run(l, k.name)
			if err != nil {
				return b, err
			}
			b.by[k.name] = &by
		}
		return b, nil
	}
	if b.cfg, err = p.jobOfLength(l, name); err != nil {
		return b, err
	}
	_, b.same = b.cfg.Policy.(bidding.OnDemand)
	b.within, b.timed, b.replay = Within(&cfg), bidding.NeedsDeadline(b.cfg.Policy), p.Replay
	if b.replay { // end as the real run would
		if b.cfg.MaxDuration, b.cfg.Overspends = b.limit, false; b.limit > 0 {
			b.cfg.Horizon = 0
		}
	}
	return b, nil
}

// EvictionSource describes why and how often machines are reclaimed in the experiment's runs; empty if prices alone
// decide.
func (p Experiment) EvictionSource() string {
	if p.Replay && p.Job.Hazard != nil {
		return "Evictions for capacity: none, as on the fake cloud; auto and past starts have them."
	}
	return EvictionSource(&p.Job)
}

// length is the amount of a job's work, as undisturbed time on the on-demand fleet; 0 = the job's own.
type length time.Duration

// scale returns a job with that much work. All runs continue until their work is done, or to their horizon: runs that
// max_duration or the budget cut short would compare unequal work.
func (l length) scale(job sim.Config) sim.Config {
	if l > 0 {
		return OnEC2(job, time.Duration(l))
	}
	job.MaxDuration, job.Overspends, job.Horizon = 0, true, cmp.Or(job.Horizon, Horizon(ComputeTime(&job)))
	return job
}

// lengths returns the experiment's lengths.
func (p Experiment) lengths() (out []length) {
	for _, compute := range p.Hours {
		out = append(out, length(compute))
	}
	if len(out) == 0 {
		return []length{0}
	}
	return out
}

// longest returns the longest that a run may take.
func (p Experiment) longest() (longest time.Duration) {
	for _, l := range p.lengths() {
		cfg := l.scale(p.Job)
		longest = max(longest, horizonOf(&cfg))
	}
	return longest
}

// Single simulates an experiment's only run and passes on every entry of its journal. It keeps the job's max_duration,
// so that the report is the real run's.
func (p Experiment) Single(tell func(journal.Entry) error) error {
	lengths := p.lengths()
	if len(p.Policies) != 1 || IsOracle(p.Policies[0]) || len(lengths) != 1 {
		return errors.New("the journal of a run is that of one policy, of one length; name one of each")
	}
	job := lengths[0].scale(p.Job)
	starts, err := p.Starts.Times(&job)
	if err != nil {
		return err
	}
	if len(starts) != 1 {
		return fmt.Errorf("the journal of a run is that of one start, and there are %d; name a time", len(starts))
	}
	b, err := p.run(lengths[0], p.Policies[0])
	if err != nil {
		return err
	}
	if b.auto != nil {
		choice, err := b.auto.At(context.Background(), starts[0])
		if err != nil {
			return err
		}
		b = *b.by[choice.Policy]
	}
	var told error
	b.cfg.Policy = caching(b.cfg.Policy, newRecollection(p.longest()))
	b.cfg.MaxDuration, b.cfg.Overspends = b.limit, false
	b.cfg.Record = func(e journal.Entry) { told = errors.Join(told, tell(e)) }
	if _, err := b.simulate(starts[0]); err != nil {
		return err
	}
	return told
}
