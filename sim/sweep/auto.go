package sweep

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/sim"
)

// Chooser decides `policy: auto`: it simulates the job with each candidate from starts in the preceding weeks, under
// the job's own rule book, and passes the results to planner.Choose. Decisions share simulations.
//
// A decision only uses what was known at its time: past starts lie on a grid, and each run is given up a fixed time
// after its start (patience), so that its result depends only on prices before the decision. Evictions that prices do
// not show are drawn until there are enough trials; if past prices add nothing, all trials start now (draws.go). It is
// safe for concurrent use.
type Chooser struct {
	job  sim.Config // in bundles
	size float64    // machines per bundle
	wish planner.Wish
	kept *keptTrials // nil = trials are kept in memory only
	// patience is how long after its start a simulated run is given up.
	patience   time.Duration
	candidates []*candidate
	// Progress, if not nil, is called from several goroutines with the number of past starts done.
	Progress func(done, total int)

	mu      sync.Mutex
	workers []*pastWorker
	choices map[time.Time]planner.Choice
}

// candidate is a policy and its result.
type candidate struct {
	name    string
	cfg     sim.Config
	within  time.Duration // time to the deadline, for policies that keep one
	known   map[trialID]planner.Trial
	refused error
}

// The spacing of past starts, on a grid that does not depend on when a decision is made; older ones weigh less, and are
// sparser: one a day, at a different hour each.
const (
	pastEvery  = 6 * time.Hour
	pastRecent = 14 * 24 * time.Hour
	pastReach  = 63 * 24 * time.Hour
	// pastHalf is the half-life of a start's weight.
	pastHalf = 14 * 24 * time.Hour
	// pastLearn is the history needed before a past start.
	pastLearn = 24 * time.Hour
)

// NewChooser returns the chooser for a job made by Maker.Base or OnEC2. By makes the job for each candidate; nil = as
// in a study, which has no job file.
func NewChooser(job sim.Config, by func(policy string) (sim.Config, error), wish planner.Wish) *Chooser {
	if by == nil {
		by = studied(job)
	}
	within := Within(&job)
	thin, size := thinning(&job)
	past := func(cfg sim.Config) sim.Config {
		cfg.Faults, cfg.MaxDuration, cfg.Overspends, cfg.Observers = nil, 0, true, sim.Observers{}
		return thin(cfg)
	}
	c := &Chooser{job: past(job), size: size, wish: wish, choices: map[time.Time]planner.Choice{}}
	// cost-per-work waits for cheap times up to twice the undisturbed time and 12 hours.
	c.patience = (2*max(ComputeTime(&c.job), undisturbed(&c.job)) + 14*time.Hour + pastEvery - 1).Truncate(pastEvery)
	c.job.Horizon = c.patience
	for _, name := range candidatesOf(&job) {
		cfg, err := by(name)
		k := &candidate{name: name, within: within, known: map[trialID]planner.Trial{}, refused: err}
		if err == nil {
			k.cfg = past(cfg)
			k.cfg.Horizon = c.patience
		}
		c.candidates = append(c.candidates, k)
	}
	return c
}

// WishOf returns what a job optimises, within its budget and its longest duration; 0 = no bound.
func WishOf(job *sim.Config, longest time.Duration) planner.Wish {
	w := planner.Wish{ValueOfTime: job.ValueOfTime, Budget: job.Budget, Within: longest}
	if within := job.Deadline.Sub(job.Start); !job.Deadline.IsZero() && (longest == 0 || within < longest) {
		w.Within = within
	}
	return w
}

// Candidates returns the policies that auto chooses among: without a deadline, only the first policy that keeps one,
// with the time that a dry run gives it (Within).
func Candidates(deadline bool) []string {
	return slices.DeleteFunc(bidding.Names(), func(name string) bool {
		policy, _ := bidding.ByName(name)
		return !deadline && bidding.NeedsDeadline(policy) && name != bidding.Deadline{}.Name()
	})
}

// candidatesOf returns the candidates for a job: programs do without reliable machines.
func candidatesOf(job *sim.Config) []string {
	names := Candidates(!job.Deadline.IsZero())
	if job.Programs != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(bidding.NamesForPrograms(), name) })
	}
	return names
}

// At makes the decision at a time.
func (c *Chooser) At(ctx context.Context, now time.Time) (planner.Choice, error) {
	if grid := now.UTC().Truncate(pastEvery); anyPriceAt(c.job.Pools, grid) {
		now = grid // nothing new becomes known between two points of the grid
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.choices[now]; ok {
		return known, nil
	}
	samples, parts := c.drawn(now, c.samples(now))
	for _, k := range c.candidates {
		c.kept.recall(c, k, samples)
	}
	seen, dropped, left := map[*candidate]int{}, map[string]string{}, c.candidates
	for _, n := range parts {
		if err := c.simulate(ctx, left, samples[:n]); err != nil {
			return planner.Choice{}, err
		}
		for _, k := range left {
			seen[k] = n
		}
		if n == len(samples) {
			break
		}
		maps.Copy(dropped, planner.RuledOut(c.wish, samples[:n], c.trials(seen, dropped, samples)))
		left = slices.DeleteFunc(slices.Clone(left), func(k *candidate) bool { return dropped[k.name] != "" || k.refused != nil })
		if len(left) == 1 {
			break // more starts would change nothing
		}
	}
	c.kept.keep(c, samples)
	choice := planner.Choose(c.wish, c.standard(), samples, c.trials(seen, dropped, samples))
	c.choices[now] = choice
	return choice, nil
}

// Estimate forecasts a run with the chosen policy: a planner.Estimator.
func (c *Chooser) Estimate(in planner.Input) (planner.Forecast, error) {
	choice, err := c.At(context.Background(), in.Now)
	if err != nil {
		return planner.Forecast{}, err
	}
	chosen := c.candidates[slices.IndexFunc(c.candidates, func(k *candidate) bool { return k.name == choice.Policy })]
	job := chosen.cfg
	if bidding.NeedsDeadline(job.Policy) && job.Deadline.IsZero() {
		job.Deadline = in.Now.Add(chosen.within)
	}
	return Past{Job: job, Progress: c.Progress, size: c.size}.Estimate(in)
}

// last returns the latest past start that a decision uses.
func (c *Chooser) last(now time.Time) time.Time {
	return now.UTC().Truncate(pastEvery).Add(-c.patience).Truncate(pastEvery)
}

// standard returns the policy to use if the past is no guide, or the first one that can run the job.
func (c *Chooser) standard() string {
	standard := bidding.CostPerWork{}.Name()
	if c.job.Programs != nil {
		standard = bidding.Checkpoint{}.Name()
	}
	able := slices.DeleteFunc(slices.Clone(c.candidates), func(k *candidate) bool { return k.refused != nil })
	if len(able) == 0 || slices.ContainsFunc(able, func(k *candidate) bool { return k.name == standard }) {
		return standard
	}
	return able[0].name
}

// trials returns the candidates' trials, each from the first starts that judge it, and the reasons why some were
// dropped.
func (c *Chooser) trials(judgedBy map[*candidate]int, dropped map[string]string, samples []planner.Sample) []planner.Trials {
	out := make([]planner.Trials, len(c.candidates))
	for i, k := range c.candidates {
		t := &out[i]
		if t.Policy, t.Dropped = k.name, dropped[k.name]; k.refused != nil {
			t.Refused = why(k.refused)
			continue
		}
		for _, s := range samples[:judgedBy[k]] {
			t.Runs = append(t.Runs, k.known[idOf(s)])
		}
	}
	return out
}

// samples returns the past starts that a decision uses. The first eighth, quarter and half are each spread over the
// whole period.
func (c *Chooser) samples(now time.Time) (out []planner.Sample) {
	var all []planner.Sample
	last := c.last(now)
	for start := last; start.After(last.Add(-pastReach)) && anyPriceAt(c.job.Pools, start.Add(-pastLearn)); start = start.Add(-pastEvery) {
		age, spread := last.Sub(start), 1.0
		if age >= pastRecent {
			perDay := int64(24 * time.Hour / pastEvery)
			slot := start.Unix() / int64(pastEvery/time.Second)
			if slot%perDay != (slot/perDay)%perDay {
				continue
			}
			spread = float64(perDay)
		}
		if !meetsHole(&c.job, start) {
			all = append(all, planner.Sample{Start: start, Weight: spread * halved(age, pastHalf)})
		}
	}
	for _, first := range []int{0, 4, 2, 6, 1, 5, 3, 7} {
		for i := first; i < len(all); i += 8 {
			out = append(out, all[i])
		}
	}
	return out
}

// simulate runs the missing trials on all cores.
func (c *Chooser) simulate(ctx context.Context, candidates []*candidate, samples []planner.Sample) error {
	type task struct {
		of     *candidate
		runs   []trialID
		trials []planner.Trial
		err    error
	}
	var tasks []*task
	total := 0
	for _, k := range candidates {
		var missing []trialID
		for _, s := range samples {
			if _, known := k.known[idOf(s)]; !known && k.refused == nil {
				missing = append(missing, idOf(s))
			}
		}
		total += len(missing)
		slices.SortFunc(missing, trialID.compare) // neighbouring trials share what policies derive from the past
		for chunk := range slices.Chunk(missing, max(1, min(blockLength, len(missing)/runtime.GOMAXPROCS(0)))) {
			tasks = append(tasks, &task{of: k, runs: chunk})
		}
	}
	for len(c.workers) < min(runtime.GOMAXPROCS(0), len(tasks)) {
		c.workers = append(c.workers, &pastWorker{recalled: newRecollection(c.patience + blockLength*pastEvery), same: map[string]planner.Trial{}})
	}
	var next, finished atomic.Int64
	var busy sync.WaitGroup
	for _, w := range c.workers[:min(len(c.workers), len(tasks))] {
		busy.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(tasks)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				t := tasks[i]
				for _, id := range t.runs {
					if ctx.Err() != nil || t.err != nil {
						break
					}
					var trial planner.Trial
					trial, t.err = w.run(t.of, id)
					t.trials = append(t.trials, trial)
					if c.Progress != nil {
						c.Progress(int(finished.Add(1)), total)
					}
				}
			}
		})
	}
	busy.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, t := range tasks {
		if t.err != nil {
			t.of.refused = cmp.Or(t.of.refused, t.err)
			continue
		}
		for i, id := range t.runs {
			t.of.known[id] = t.trials[i]
		}
	}
	return nil
}

// pastWorker is one of the workers that run a chooser's trials.
type pastWorker struct {
	recalled *pastCache
	same     map[string]planner.Trial // for policies whose starts all give the same result
}

// run simulates a candidate.
func (w *pastWorker) run(k *candidate, id trialID) (planner.Trial, error) {
	if trial, known := w.same[k.name]; known {
		return trial, nil
	}
	cfg := k.cfg
	cfg.Policy = caching(cfg.Policy, w.recalled)
	cfg.Hazard = cfg.Hazard.Draw(id.draw)
	if id.now {
		cfg = atPricesOf(cfg, id.start)
	}
	b := block{cfg: cfg, within: k.within, timed: bidding.NeedsDeadline(cfg.Policy)}
	r, err := b.simulate(id.start)
	if err != nil {
		return planner.Trial{}, fmt.Errorf("by %s: %w", k.name, err)
	}
	t := trialOf(&cfg, r)
	if _, same := cfg.Policy.(bidding.OnDemand); same {
		w.same[k.name] = t
	}
	return t, nil
}

// leastDone is the part of a job below which an abandoned run says nothing about the rest.
const leastDone = 0.01

// trialOf returns the result of a run. An abandoned run is extrapolated at its own pace: the policy was waiting for
// such prices, and nothing makes it buy on demand. If it did almost nothing, it is assumed to pay on-demand prices for
// the work.
func trialOf(cfg *sim.Config, r sim.Result) planner.Trial {
	t := planner.Trial{Cost: dollars(r.Cost), Hours: r.Runtime.Hours(), GivenUp: !r.Finished()}
	if !t.GivenUp {
		return t
	}
	done := doneOf(cfg, r)
	t.Hours /= max(done, leastDone)
	if done < leastDone {
		t.Cost += dollars(OnDemandCost(cfg))
	} else {
		t.Cost /= done
	}
	return t
}

// halved returns the decay of 1 over a time, given the half-life.
func halved(age, half time.Duration) float64 { return math.Exp2(-age.Hours() / half.Hours()) }
