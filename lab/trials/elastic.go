package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

const (
	elasticMachines = 6
	elasticSplits   = 42
	clocksBefore    = 20 // to determine the usual length
	clocksAfter     = 40 // in which the loss is measured
	waitLimit       = 100 * time.Millisecond
)

// change is the cost of a change of machines.
type change struct {
	usual time.Duration // length of a clock before the change
	lost  time.Duration // delay of the job
	worst time.Duration // the longest clock, beyond the usual
	wait  time.Duration // the longest clock, beyond the time for its work on the machines present
}

// elastic compares the costs of changing machines: elastically, as partitions and splits move while training continues,
// and by kill and restart: save a checkpoint, end every process, restart the job on other machines. Six transient
// machines train matrix factorisation, three serve; one that serves and one that only works are replaced. Kill and
// restart gets the best case: it knows in advance and loses no work. A third way is a scheduler's `tierml scale`: one
// more server and worker, and then fewer again, while no worker has more work than usual, so that any extra time of a
// clock is waiting. The last ways are the tuner's changes of settings: one server more and fewer on the same machines,
// and, by `tierml drill --do move`, all partitions in both ways of moving ("Towards self-tuning parameter servers",
// table V). Another run adds and removes a worker many times, for a narrower interval of the cost of a scheduler's
// removal.
func elastic(f *flag.FlagSet) func(context.Context, place) error {
	rounds := f.Int("rounds", 3, "how often each way is tried; medians count")
	rank := f.Int("rank", 16, "of the model; more makes partitions larger")
	data := f.String("data", "../examples/data/jester5k.csv.gz", "ratings to train on")
	removals := f.Int("removals", 12, "how many removals of a worker are measured, one after the other (18 s each); below 2: none")
	return func(ctx context.Context, at place) error {
		path, err := filepath.Abs(*data)
		if err != nil {
			return fmt.Errorf("finding the data: %w", err)
		}
		fmt.Fprintln(at.out, "one server and one worker of 3 + 3 machines replaced   usual clock   job later by   lost job-seconds   longest clock: beyond usual   beyond its work")
		ways := []struct {
			name string
			do   func(*trial, context.Context, int) (rollbacksMayBe bool, err error)
		}{{"elastic", (*trial).replace}, {"kill and restart", (*trial).restart}, {"more and fewer by tierml scale", (*trial).moreAndFewer},
			{"a setting: one server more, then fewer", (*trial).servers},
			{"all partitions move in windows", moves()}, {"all partitions move at once", moves("--at-once")}, {"all partitions move, fault-in", moves("--fault-in")}}
		var medians []change
		for i, w := range ways {
			var costs []change
			for n := range *rounds {
				c, err := at.elastic(ctx, fmt.Sprintf("%d-%d", i, n), path, *rank, w.do)
				if err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
				fmt.Fprintln(at.out, c.line(w.name))
				costs = append(costs, c)
			}
			slices.SortFunc(costs, func(a, b change) int { return int(a.lost - b.lost) })
			medians = append(medians, costs[len(costs)/2])
		}
		fmt.Fprintln(at.out, "medians:")
		for i, w := range ways {
			fmt.Fprintln(at.out, medians[i].line(w.name))
		}
		replaced, restarted, asked := medians[0], medians[1], medians[2]
		if *removals > 1 {
			lost, err := at.removals(ctx, path, *rank, *removals)
			if err != nil {
				return fmt.Errorf("removals: %w", err)
			}
			mean, half := interval(lost)
			fmt.Fprintf(at.out, "%d removals of a worker by tierml scale: each makes the job later by %.3f ± %.3f s (two standard errors), %.1f %% of kill and restart\n",
				len(lost), mean, half, 100*mean/restarted.lost.Seconds())
		}
		share := replaced.lost.Seconds() / restarted.lost.Seconds()
		fmt.Fprintf(at.out, "elastic loses %.1f %% of what kill and restart loses (at most 20 %%); no worker waits more than %v longer than usual (at most %v)\n",
			100*share, replaced.wait.Round(time.Millisecond), waitLimit)
		fmt.Fprintf(at.out, "%s: the longest clock takes %v longer than usual (at most %v)\n", ways[2].name, asked.worst.Round(time.Millisecond), waitLimit)
		var errs []error
		for i := 3; i < 5; i++ { // the later ones are for comparison
			if share := medians[i].lost.Seconds() / restarted.lost.Seconds(); share > 0.2 {
				errs = append(errs, fmt.Errorf("%s: loses %.2f of what kill and restart loses", ways[i].name, share))
			}
		}
		if asked.worst > waitLimit {
			errs = append(errs, fmt.Errorf("%s: a clock takes %v longer than usual", ways[2].name, asked.worst))
		}
		if share > 0.2 {
			errs = append(errs, fmt.Errorf("elastic loses %.2f of what kill and restart loses", share))
		}
		if replaced.wait > waitLimit {
			errs = append(errs, fmt.Errorf("a worker waits %v longer than usual", replaced.wait))
		}
		return errors.Join(errs...)
	}
}

func (c change) line(name string) string {
	return fmt.Sprintf("%-52s  %11v  %13v  %17.1f  %27v  %14v", name, c.usual.Round(time.Millisecond), c.lost.Round(time.Millisecond),
		elasticMachines*c.lost.Seconds(), c.worst.Round(time.Millisecond), c.wait.Round(time.Millisecond))
}

// training starts a job with regular clocks, on all of its machines.
func (at place) training(ctx context.Context, name, data string, rank int) (*trial, error) {
	j := usual("elastic", "mf")
	j.Data, j.Params, j.Machines, j.Consistency = data, fmt.Sprintf("{rank: %d, batches: 8}", rank), elasticMachines, ""
	j.Clocks, j.Splits, j.Partitions, j.Evaluate = 100_000, elasticSplits, 24, 1000
	j.ThreeAbove, j.Boot, j.Notice, j.Dead, j.FlopsPerVCPU = 15, time.Second, 10*time.Second, 10*time.Second, 900_000
	t, err := begin(filepath.Join(at.dir, name), at.binary, j, at.out)
	if err != nil {
		return t, err
	}
	return t, t.await(ctx, func(entries []journal.Entry) bool {
		return clocksSince(entries, journal.Join) >= clocksBefore+2 && count(entries, journal.Join) > elasticMachines
	})
}

// removals adds and removes a worker this many times, and returns the seconds by which each removal delayed the
// job.
func (at place) removals(ctx context.Context, data string, rank, times int) (lost []float64, err error) {
	t, err := at.training(ctx, "removals", data, rank)
	defer t.abandon()
	if err != nil {
		return nil, err
	}
	scale := func(more string) (asked, done int, err error) { // clocks done before
		entries, err := t.journal()
		if err != nil {
			return 0, 0, err
		}
		asked = len(ticks(entries))
		if printed, err := t.scale("--workers", more, "--wait"); err != nil {
			return 0, 0, fmt.Errorf("%w: %s", err, printed)
		}
		if entries, err = t.journal(); err != nil {
			return 0, 0, err
		}
		done = len(ticks(entries))
		return asked, done, t.await(ctx, func(entries []journal.Entry) bool { return len(ticks(entries)) > done+settles+besideRemoval })
	}
	for range times {
		if _, _, err := scale("+1"); err != nil {
			return nil, err
		}
		asked, done, err := scale("-1")
		if err != nil {
			return nil, err
		}
		entries, err := t.journal()
		if err != nil {
			return nil, err
		}
		lost = append(lost, removal(ticks(entries), asked, done))
	}
	return lost, nil
}

const (
	settles       = 3  // clocks after a removal that it may still lengthen
	besideRemoval = 12 // undisturbed clocks before and after a removal for comparison
)

// removal returns how many seconds longer the clocks from a request to its end, and those after it, took than those
// just before and after with as many machines: both include the effect of a busy computer.
func removal(at []tick, asked, done int) (seconds float64) {
	mean := func(from, to int) float64 { return (at[to-1].at - at[from-1].at).Seconds() / float64(to-from) }
	before, after := mean(asked-besideRemoval, asked), mean(done+settles, done+settles+besideRemoval)
	for i := asked; i < done+settles; i++ {
		seconds += (at[i].at - at[i-1].at).Seconds()
		if at[i].machines == at[asked-1].machines {
			seconds -= before
		} else {
			seconds -= after
		}
	}
	return seconds
}

// interval returns a mean, and two standard errors.
func interval(values []float64) (mean, half float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		half += (v - mean) * (v - mean) / (n - 1)
	}
	return mean, 2 * math.Sqrt(half/n)
}

// elastic measures one way once.
func (at place) elastic(ctx context.Context, name, data string, rank int, do func(*trial, context.Context, int) (bool, error)) (c change, err error) {
	t, err := at.training(ctx, name, data, rank)
	defer t.abandon()
	if err != nil {
		return c, err
	}
	entries, err := t.journal()
	if err != nil {
		return c, err
	}
	changed := len(ticks(entries)) - 1
	mayRollBack, err := do(t, ctx, changed)
	if err != nil {
		return c, err
	}
	if entries, err = t.journal(); err != nil {
		return c, err
	}
	if n := count(entries, journal.Rollback); n > 0 && !mayRollBack {
		return c, fmt.Errorf("%d roll-backs, though nobody was lost without a warning", n)
	}
	return measure(ticks(entries), changed), nil
}

// clocksSince counts the clocks done since the last entry of a kind.
func clocksSince(entries []journal.Entry, kind journal.Kind) (n int) {
	for _, e := range slices.Backward(entries) {
		switch e.Kind {
		case kind:
			return n
		case journal.ClockDone:
			n++
		}
	}
	return n
}

// tick is a clock that was done.
type tick struct {
	at       time.Duration // wall-clock
	machines int           // number that worked on it
}

func ticks(entries []journal.Entry) (list []tick) {
	for _, e := range entries {
		if e.Kind == journal.ClockDone && !e.Redone {
			list = append(list, tick{e.T.Sub(entries[0].T) / speed, e.Count})
		}
	}
	return list
}

// most returns the most splits of a machine when this many share them.
func most(machines int) int { return (elasticSplits + machines - 1) / max(1, machines) }

// measure compares the clocks after a change with those before it.
func measure(at []tick, changed int) (c change) {
	var usually []time.Duration
	for i := changed - clocksBefore; i < changed; i++ {
		usually = append(usually, at[i].at-at[i-1].at)
	}
	c.usual = median(usually)
	last := changed + clocksAfter
	c.lost = at[last].at - at[changed].at - time.Duration(clocksAfter)*c.usual
	for i := changed + 1; i <= last; i++ {
		long := at[i].at - at[i-1].at
		c.worst = max(c.worst, long-c.usual)
		fewest := min(at[i].machines, at[i-1].machines)
		c.wait = max(c.wait, long-c.usual*time.Duration(most(fewest))/time.Duration(most(at[changed].machines)))
	}
	return c
}

// replace evicts the oldest transient machine, which serves, and the youngest, which does not.
func (t *trial) replace(ctx context.Context, changed int) (bool, error) {
	spot, err := t.machines(market.Spot)
	if err != nil {
		return false, err
	}
	for _, m := range []machine{spot[0], spot[len(spot)-1]} {
		if _, err := t.do("evict %s", m.id); err != nil {
			return false, err
		}
	}
	return false, t.await(ctx, func(entries []journal.Entry) bool {
		return count(entries, journal.Join) >= elasticMachines+3 && len(ticks(entries)) > changed+clocksAfter
	})
}

// moreAndFewer requests one more server and worker and, once they are there, one fewer again.
func (t *trial) moreAndFewer(ctx context.Context, changed int) (bool, error) {
	for _, more := range []string{"+1", "-1"} {
		if printed, err := t.scale("--workers", more, "--servers", more, "--wait"); err != nil {
			return false, fmt.Errorf("%w: %s", err, printed)
		}
	}
	entries, err := t.journal()
	if err != nil {
		return false, err
	}
	last := max(len(ticks(entries)), changed+clocksAfter) + 1
	return false, t.await(ctx, func(entries []journal.Entry) bool { return len(ticks(entries)) > last })
}

// servers makes one more transient machine serve, and then one fewer, as the tuner does.
func (t *trial) servers(ctx context.Context, changed int) (bool, error) {
	for _, more := range []string{"+1", "-1"} {
		if printed, err := t.scale("--servers", more, "--wait"); err != nil {
			return false, fmt.Errorf("%w: %s", err, printed)
		}
	}
	return false, t.await(ctx, func(entries []journal.Entry) bool { return len(ticks(entries)) > changed+clocksAfter })
}

// moves returns a change in which every partition moves.
func moves(how ...string) func(*trial, context.Context, int) (bool, error) {
	return func(t *trial, ctx context.Context, changed int) (bool, error) {
		printed, err := t.ask(append([]string{"drill", t.folder(), "--do", "move", "-o", "csv"}, how...)...)
		if err != nil {
			return false, fmt.Errorf("%w: %s", err, printed)
		}
		entries, err := t.journal()
		if err != nil {
			return false, err
		}
		for _, e := range entries {
			if d, err := e.MovedDetails(); err == nil && e.Kind == journal.Moved && e.Seconds > 0 {
				fmt.Fprintf(t.out, "  %d partitions, %d bytes, %.3f s on their way in all; workers waited %.3f s in all, %.3f s at most\n", e.Count, e.Bytes, e.Seconds, d.Waited, d.Longest)
			}
		}
		return false, t.await(ctx, func(entries []journal.Entry) bool { return len(ticks(entries)) > changed+clocksAfter })
	}
}

// restart saves, ends everything and restarts with other machines.
func (t *trial) restart(ctx context.Context, changed int) (bool, error) {
	if err := t.interrupt(); err != nil {
		return true, err
	}
	if err := t.resume(); err != nil {
		return true, err
	}
	return true, t.await(ctx, func(entries []journal.Entry) bool { return len(ticks(entries)) > changed+clocksAfter })
}
