package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// recovery measures how long training stops when half of the ActivePSs are lost without warning: by SIGKILL, which
// breaks their connections, and by SIGSTOP, after which they are silent with open connections, like machines behind a
// network black hole.
func recovery(f *flag.FlagSet) func(context.Context, place) error {
	rounds := f.Int("rounds", 5, "how often each way is tried")
	return func(ctx context.Context, at place) error {
		const transient, reliable, usualClock = 8, 2, time.Second / 4
		j := usual("recovery", "tally")
		j.Machines, j.Reliable, j.Heartbeat, j.ThreeAbove = transient, "{type: c3.large, count: 2}", time.Second, 15
		j.Clocks, j.Splits, j.Partitions, j.Consistency = 1_000_000, 24, 16, "staleness: 0"
		j.FlopsPerVCPU = paced(24e6, usualClock, transient+reliable)
		t, err := begin(at.dir, at.binary, j, at.out)
		defer t.abandon()
		if err != nil {
			return err
		}
		fmt.Fprintf(at.out, "%d transient and %d reliable machines, clocks of %v, heartbeat 1s, death after 3s\n", transient, reliable, usualClock)
		fmt.Fprintln(at.out, "half of the ActivePSs  until the roll-back  until all are back at the cut  until a clock is done")
		var failures []error
		for _, w := range []struct {
			name   string
			signal syscall.Signal
			limit  time.Duration
		}{{"killed (SIGKILL)", syscall.SIGKILL, 2 * time.Second}, {"silent (SIGSTOP)", syscall.SIGSTOP, 5 * time.Second}} {
			var back []time.Duration
			for range *rounds {
				l, err := t.loseHalf(ctx, w.signal, transient+reliable)
				if err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
				fmt.Fprintf(at.out, "%-21s  %19v  %29v  %20v\n", w.name, l.decided, l.back, l.clock)
				back = append(back, l.clock)
			}
			verdict := "below"
			worst := slices.Max(back)
			if worst > w.limit {
				verdict = "NOT below"
				failures = append(failures, fmt.Errorf("%s: training again after %v", w.name, worst))
			}
			fmt.Fprintf(at.out, "%-21s  a clock is done after %v (median), %v (worst): %s %v\n", w.name, median(back), worst, verdict, w.limit)
		}
		return errors.Join(failures...)
	}
}

// loss has the times since the machines were lost.
type loss struct{ decided, back, clock time.Duration }

// loseHalf ends half of the ActivePSs once all machines take part, and waits until training continues.
func (t *trial) loseHalf(ctx context.Context, signal syscall.Signal, all int) (l loss, err error) {
	if err := t.await(ctx, func(e []journal.Entry) bool { return settled(e, all) }); err != nil {
		return l, err
	}
	spot, err := t.machines(market.Spot)
	if err != nil {
		return l, err
	}
	before, err := t.journal()
	if err != nil {
		return l, err
	}
	rollbacks := count(before, journal.Rollback)
	went := time.Now()
	for _, m := range spot[:len(spot)/4] { // the oldest half are the ActivePSs (docs/training.md)
		if err := syscall.Kill(m.pid, signal); err != nil {
			return l, fmt.Errorf("machine %s: %w", m.id, err)
		}
	}
	generation := ""
	if err := t.await(ctx, func(entries []journal.Entry) bool {
		again, seen := false, 0
		for _, e := range entries {
			if e.Kind == journal.Rollback {
				seen++
				generation, again = fmt.Sprint(e.Generation), false
			}
			again = again || e.Kind == journal.ClockDone
		}
		if seen > rollbacks && l.decided == 0 {
			l.decided = time.Since(went).Round(time.Millisecond)
		}
		return seen > rollbacks && again
	}); err != nil {
		return l, err
	}
	l.clock = time.Since(went).Round(time.Millisecond)
	returns, err := t.returns()
	for _, r := range returns {
		if r.generation == generation {
			l.back = max(l.back, r.at.Sub(went).Round(time.Millisecond))
		}
	}
	return l, err
}

// settled reports whether this many machines take part, with two cuts and eight clocks since the last change.
func settled(entries []journal.Entry, machines int) bool {
	present, cuts, clocks := map[string]bool{}, 0, 0
	for _, e := range entries {
		switch e.Kind {
		case journal.Join:
			present[e.Instance] = true
			cuts, clocks = 0, 0
		case journal.Leave:
			delete(present, e.Instance)
		case journal.Move, journal.Rollback:
			cuts, clocks = 0, 0
		case journal.Cut:
			cuts++
		case journal.ClockDone:
			clocks++
		}
	}
	return len(present) == machines && cuts >= 2 && clocks >= 8
}
