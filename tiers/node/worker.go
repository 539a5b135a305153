package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// worker computes on this machine's splits: one loop (run), and commands (assignment.go) that change what it does next.
//
// Invariants:
//   - A split's clock has begun when its rows have been read. Until then the wait for other splits can be broken off; what
//     has begun is committed before its split is given away, or discarded as if it had not (discard).
//   - Contributions leave in order, one at a time.
//   - The lowest clock goes first. Otherwise this worker could wait for rows that need an old split which it has itself.
//
// One turn of the loop:
//  1. next waits for something to do and takes the splits at the lowest clock (group).
//  2. compute reads their rows, begins the round, and starts to read what the round after it lacks (ahead.go).
//  3. It runs the splits, and waits until the declared rate allows the work (pacer).
//  4. send waits for the contribution before this one, then contributes beside the next turn; finish reports.
//
// With staleness three rounds overlap so: sent, computed, read. Under BSP, and for applications that read late, the loop waits
// for the contribution first: the rows of the next clock need it.
//
// breakOff ends a round that has not begun; discard one that has and was not sent; drop ends any, when its generation is over.
type worker struct {
	client    Client
	evalEvery ps.Clock
	report    func(tiers.Report)
	log       *slog.Logger
	pacer     pacer
	space     *workspace
	rows      *reader
	computing time.Duration // of the last round
	inc       ps.Incarnation
	sequence  uint64        // of the last contribution; never starts over
	sent      chan struct{} // closed when the last contribution has ended; nil = there was none

	mu         sync.Mutex
	wake       chan struct{} // holds a token when there may be something to do
	splits     map[ps.Split]*holding
	generation ps.Generation
	last       ps.Clock // the job's last clock
	until      ps.Clock // no clock beyond it is begun for now
	parked     bool
	fenced     bool // the generation is over: waits for recover
	stopping   bool
	begun      ps.Clock // highest clock begun
	round      *round   // waits for its rows, or computes; nil = none
	sending    *round   // computed, and on its way to the servers; nil = none
	failure    error    // why one could not be sent, for good
	releases   []*release
}

// holding is a split that this worker works on.
type holding struct {
	next    ps.Clock   // first clock not computed
	data    apps.Split // nil while it is being loaded
	taken   bool       // over from another worker, of whose work nothing that was read before may know
	leaving bool       // begins no clock any more
}

// round is one clock of a group of splits.
type round struct {
	generation ps.Generation
	clock      ps.Clock
	splits     []ps.Split // in order
	data       []apps.Split
	evaluate   bool
	taken      bool // some split is new here
	computing  bool // begun: the rows are here
	dropped    bool // broken off: its outcome does not count
	cancel     context.CancelCauseFunc
}

// release is a Release that waits for rounds under way.
type release struct {
	waiting []ps.Split
	done    []tiers.SplitAt
	answer  func(tiers.Result, error)
}

var (
	errUncomputable  = errors.New("the application failed")
	errBrokenOff     = errors.New("round broken off")
	errRolledBack    = errors.New("the generation is over: the splits go back to the committed cut")
	errNewController = errors.New("another controller has asked what this machine holds")
)

func newWorker(client Client, do tiers.Welcome, space *workspace, rate float64, report func(tiers.Report), log *slog.Logger) *worker {
	return &worker{
		client:     client,
		evalEvery:  do.EvalEvery,
		report:     report,
		log:        log,
		pacer:      pacer{rate: rate},
		space:      space,
		rows:       newReader(client, space),
		inc:        do.Incarnation,
		wake:       make(chan struct{}, 1),
		splits:     map[ps.Split]*holding{},
		generation: do.Generation,
		last:       do.Until,
		until:      do.Until,
	}
}

// run computes until ctx is done, stop is called or something fails for good.
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

// next waits for a round to do. nil: there will be none.
func (w *worker) next(ctx context.Context) (*round, context.Context, error) {
	for {
		if ctx.Err() != nil {
			return nil, nil, nil
		}
		w.mu.Lock()
		r := w.choose()
		stopping, failure := w.stopping && w.sending == nil, w.failure
		var roundCtx context.Context
		if r != nil && failure == nil {
			roundCtx, r.cancel = context.WithCancelCause(ctx)
			w.round = r
		}
		w.mu.Unlock()
		switch {
		case failure != nil:
			return nil, nil, failure
		case r != nil:
			return r, roundCtx, nil
		case stopping:
			return nil, nil, nil
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
		}
	}
}

// choose takes a round to do, if any.
func (w *worker) choose() *round {
	if w.stopping || w.parked || w.fenced {
		return nil
	}
	return w.group(nil)
}

// group takes the splits that are furthest behind once a round has been computed (nil: now): the lowest clock comes
// first, so that taking over an old split cannot lock the job up.
func (w *worker) group(after *round) *round {
	r := &round{generation: w.generation}
	for _, id := range sortedSplits(w.splits) {
		h := w.splits[id]
		next := h.next
		if after != nil && slices.Contains(after.splits, id) {
			next = after.clock + 1
		}
		if h.data == nil || h.leaving || next > w.until {
			continue
		}
		if r.splits == nil || next < r.clock {
			r.clock, r.splits, r.data, r.taken = next, nil, nil, false
		}
		if next == r.clock {
			r.splits, r.data, r.taken = append(r.splits, id), append(r.data, h.data), r.taken || h.taken
		}
	}
	if r.splits == nil {
		return nil
	}
	r.evaluate = w.evalEvery > 0 && (r.clock%w.evalEvery == 0 || r.clock == w.last)
	return r
}

// begin marks a round as begun; false when it was broken off before.
func (w *worker) begin(r *round) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.dropped {
		return false
	}
	r.computing = true
	for _, id := range r.splits {
		w.splits[id].taken = false
	}
	w.begun = max(w.begun, r.clock)
	return true
}

// computed marks a round as on its way to the servers; false when its generation has ended.
func (w *worker) computed(r *round) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.dropped {
		return false
	}
	w.round, w.sending = nil, r
	for _, id := range r.splits {
		w.splits[id].next = r.clock + 1
	}
	return true
}

// end takes up that a round was not computed, or broken off. The error is one that ends the worker.
func (w *worker) end(r *round, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.round = nil
	return w.judge(r, err)
}

// judge says what a round's error means to the worker. The caller holds mu.
func (w *worker) judge(r *round, err error) error {
	switch {
	case errors.Is(err, ErrFenced):
		return err
	case r.dropped:
		return nil
	case errors.Is(err, ErrStale):
		w.log.Info("the generation is over; waiting for recovery", "generation", r.generation, "clock", r.clock)
		w.giveUp()
		return nil
	}
	return fmt.Errorf("working on clock %d of splits %v: %w", r.clock, r.splits, err)
}

// finish takes up that a round was contributed, or could not be.
func (w *worker) finish(ctx context.Context, r *round, stats []tiers.SplitStats, seconds float64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.signal()
	if w.sending == r {
		w.sending = nil
	}
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, ErrFenced) {
			return // the node ends
		}
		if w.failure = w.judge(r, err); w.failure != nil {
			w.drop()
		}
		return
	}
	if r.dropped {
		return
	}
	w.report(tiers.Progress{Generation: r.generation, Clock: r.clock, Splits: stats, Seconds: seconds})
	w.releases = slices.DeleteFunc(w.releases, func(l *release) bool {
		l.waiting = slices.DeleteFunc(l.waiting, func(id ps.Split) bool {
			if w.busy(id) {
				return false
			}
			l.done = append(l.done, w.remove([]ps.Split{id})...)
			return true
		})
		if len(l.waiting) > 0 {
			return false
		}
		l.send()
		return true
	})
}

// busy reports whether a split's work has begun and does not count yet.
func (w *worker) busy(id ps.Split) bool {
	return w.sending != nil && slices.Contains(w.sending.splits, id) ||
		w.round != nil && w.round.computing && slices.Contains(w.round.splits, id)
}

func (l *release) send() {
	slices.SortFunc(l.done, func(a, b tiers.SplitAt) int { return cmp.Compare(a.Split, b.Split) })
	l.answer(tiers.Released{Splits: l.done}, nil)
}

// remove takes splits from this worker and gives their next clocks.
func (w *worker) remove(ids []ps.Split) []tiers.SplitAt {
	var out []tiers.SplitAt
	for _, id := range ids {
		if h := w.splits[id]; h != nil {
			out = append(out, tiers.SplitAt{Split: id, Clock: h.next})
			delete(w.splits, id)
		}
	}
	return out
}

// breakOff ends the round under way if it has not begun.
func (w *worker) breakOff() {
	if w.round != nil && !w.round.computing {
		w.round.dropped = true
		w.round.cancel(errBrokenOff)
	}
}

// discard ends the round that is being computed, if it has one of these splits: nothing of it has left this machine, and what it
// comes to does not depend on who computes it. Where rounds overlap, the next one has begun to read what this one writes, and it is
// left to end.
func (w *worker) discard(ids []ps.Split) {
	r := w.round
	if r == nil || !r.computing || w.rows.cache != nil || !slices.ContainsFunc(ids, func(id ps.Split) bool { return slices.Contains(r.splits, id) }) {
		return
	}
	r.dropped, w.round = true, nil
	r.cancel(errBrokenOff)
}

// drop ends the rounds under way, whatever they are doing. They may take a while to notice, but from now on they are no
// part of what the worker does: nobody waits for them, and their clocks say nothing about its splits.
func (w *worker) drop() {
	for _, r := range []*round{w.round, w.sending} {
		if r != nil {
			r.dropped = true
			r.cancel(errBrokenOff)
		}
	}
	w.round, w.sending = nil, nil
}

// giveUp ends all work of the generation. Releases that wait for it have no answer any more.
func (w *worker) giveUp() {
	w.fenced = true
	w.drop()
	for _, l := range w.releases {
		l.answer(nil, errRolledBack)
	}
	w.releases = nil
}

func (w *worker) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func sortedSplits(m map[ps.Split]*holding) []ps.Split {
	ids := make([]ps.Split, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
