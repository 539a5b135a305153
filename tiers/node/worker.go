package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/agent"
)

// worker computes on this machine's splits: one loop (run), whose rounds the agent chooses, drops and counts.
//
// Invariant: contributions leave in order, one at a time. agent.Worker has the invariants about rounds.
//
// One turn of the loop:
//  1. next waits for something to do and takes the splits at the lowest clock.
//  2. compute reads their rows, begins the round, and starts to read what the round after it lacks (ahead.go).
//  3. It runs the splits, and waits until the declared rate allows the work (pacer).
//  4. send waits for the contribution before this one, then contributes during the next turn; finish reports.
//
// With staleness three rounds overlap: sent, computed, read. Under BSP, and for applications that read late, the loop waits for the
// contribution first: the rows of the next clock need it.
type worker struct {
	client    Client
	evalEvery ps.Clock
	log       *slog.Logger
	pacer     pacer
	space     *workspace
	outside   apps.Outside // nil = the application computes by itself
	rows      *reader
	computing time.Duration // of the last round
	sequence  uint64        // of the last contribution; never starts over
	sent      chan struct{} // closed when the last contribution has ended; nil = there was none
	wake      chan struct{} // holds a token when there may be something to do

	mu      sync.Mutex
	agent   *agent.Worker
	failure error // why a round failed permanently to be sent
}

// round is one clock of a group of splits.
type round struct {
	*agent.Round
	data     []apps.Split
	evaluate bool
	cancel   context.CancelCauseFunc
}

var (
	errUncomputable = errors.New("the application failed")
	errBrokenOff    = errors.New("round broken off")
)

// run computes until ctx is done, stop is called or a permanent failure occurs.
func (w *worker) run(ctx context.Context) error {
	defer w.rows.leave()
	defer w.awaitSent()
	defer func() {
		saved, waited := w.rows.saved()
		w.log.Info("worker ends", "rounds", w.sequence, "waited_for_rows_s", waited, "bytes_not_read_again", saved)
	}()
	for {
		r, roundCtx, err := w.next(ctx)
		if r == nil {
			return err
		}
		err = w.compute(ctx, roundCtx, r)
		if err == nil && (w.rows.cache == nil || w.rows.late) {
			w.awaitSent()
		}
		if err == nil {
			continue
		}
		r.cancel(nil)
		if ctx.Err() != nil && !errors.Is(err, ErrFenced) {
			return nil // the node ends
		}
		if err := w.end(r, err); err != nil {
			return err
		}
	}
}

// next waits for a round to do; nil: there will be none.
func (w *worker) next(ctx context.Context) (*round, context.Context, error) {
	for ctx.Err() == nil {
		r, roundCtx, over, err := w.choose(ctx)
		if r != nil || over || err != nil {
			return r, roundCtx, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
		}
	}
	return nil, nil, nil
}

// choose returns a round to do, if any.
func (w *worker) choose(ctx context.Context) (r *round, roundCtx context.Context, over bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure != nil {
		return nil, nil, false, w.failure
	}
	if r = w.round(w.agent.Choose()); r == nil {
		return nil, nil, w.agent.Over(), nil
	}
	roundCtx, r.cancel = context.WithCancelCause(ctx)
	r.Cancel = func() { r.cancel(errBrokenOff) }
	return r, roundCtx, false, nil
}

// round assigns a round its data. mu must be held.
func (w *worker) round(chosen *agent.Round) *round {
	if chosen == nil {
		return nil
	}
	r := &round{Round: chosen, evaluate: w.evalEvery > 0 && (chosen.Clock%w.evalEvery == 0 || chosen.Clock == w.agent.Last)}
	for _, id := range chosen.Splits {
		r.data = append(r.data, w.agent.Data(id).(apps.Split))
	}
	return r
}

// locked runs f on the agent's state.
func locked[T any](w *worker, f func(*agent.Worker) T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f(w.agent)
}

// end records that a round was not computed, or was stopped. Its error ends the worker.
func (w *worker) end(r *round, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.judge(r, err)
}

// judge returns what a round's error means for the worker. mu must be held.
func (w *worker) judge(r *round, err error) error {
	switch {
	case errors.Is(err, ErrFenced):
		return err
	case r.Dropped:
		return nil
	case errors.Is(err, ErrStale):
		w.log.Info("the generation is over; waiting for recovery", "generation", r.Generation, "clock", r.Clock)
		w.agent.GiveUp()
		return nil
	}
	return fmt.Errorf("working on clock %d of splits %v: %w", r.Clock, r.Splits, err)
}

// finish records that a round was contributed, or could not be.
func (w *worker) finish(ctx context.Context, r *round, stats []tiers.SplitStats, seconds float64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.signal()
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, ErrFenced) {
			return // the node ends
		}
		if w.failure = w.judge(r, err); w.failure != nil {
			w.agent.Drop()
		}
		return
	}
	w.agent.Counted(r.Round, tiers.Progress{Generation: r.Generation, Clock: r.Clock, Splits: stats, Seconds: seconds})
}

// generation returns the worker's generation.
func (w *worker) generation() ps.Generation {
	return locked(w, func(a *agent.Worker) ps.Generation { return a.Generation })
}

func (w *worker) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
