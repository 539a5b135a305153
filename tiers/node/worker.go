package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// worker computes on this machine's splits: one loop (run), and commands that change what the loop does next.
//
// A split's clock is begun when its rows have been read: until then nothing has happened, and the wait for other
// splits' clocks can be broken off. What is begun is committed before its split is given away.
type worker struct {
	client    Client
	evalEvery ps.Clock
	report    func(tiers.Report)
	log       *slog.Logger
	pacer     pacer
	space     *workspace
	inc       ps.Incarnation
	sequence  uint64 // of the last contribution; never starts over

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
	round      *round   // under way; nil = none
	releases   []*release
}

// holding is a split that this worker works on.
type holding struct {
	next ps.Clock   // first clock not begun
	data apps.Split // nil while it is being loaded
}

// round is one clock of a group of splits.
type round struct {
	generation ps.Generation
	clock      ps.Clock
	splits     []ps.Split // in order
	data       []apps.Split
	evaluate   bool
	computing  bool // begun: the rows are here
	dropped    bool // broken off: its outcome does not count
	cancel     context.CancelCauseFunc
}

// release is a Release that waits for the round under way.
type release struct {
	waiting []ps.Split
	done    []tiers.SplitAt
	answer  func(tiers.Result, error)
}

var (
	errUncomputable = errors.New("the application failed")
	errBrokenOff    = errors.New("round broken off")
	errRolledBack   = errors.New("the generation is over: the splits go back to the committed cut")
)

func newWorker(client Client, do tiers.Welcome, rate float64, report func(tiers.Report), log *slog.Logger) *worker {
	return &worker{
		client:     client,
		evalEvery:  do.EvalEvery,
		report:     report,
		log:        log,
		pacer:      pacer{rate: rate},
		space:      newWorkspace(&do.Schema),
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
	for {
		r, roundCtx, err := w.next(ctx)
		if r == nil {
			return err
		}
		stats, seconds, err := w.compute(roundCtx, r)
		r.cancel(nil)
		if ctx.Err() != nil && !errors.Is(err, ErrFenced) {
			return nil // the node ends
		}
		if err := w.finish(r, stats, seconds, err); err != nil {
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
		stopping := w.stopping
		var roundCtx context.Context
		if r != nil {
			roundCtx, r.cancel = context.WithCancelCause(ctx)
			w.round = r
		}
		w.mu.Unlock()
		switch {
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

// choose takes the splits that are furthest behind as a group: the lowest clock comes first, so that taking over an
// old split cannot lock the job up.
func (w *worker) choose() *round {
	if w.stopping || w.parked || w.fenced {
		return nil
	}
	r := &round{generation: w.generation}
	for _, id := range sortedSplits(w.splits) {
		h := w.splits[id]
		if h.data == nil || h.next > w.until {
			continue
		}
		if r.splits == nil || h.next < r.clock {
			r.clock, r.splits, r.data = h.next, nil, nil
		}
		if h.next == r.clock {
			r.splits, r.data = append(r.splits, id), append(r.data, h.data)
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
	w.begun = max(w.begun, r.clock)
	return true
}

// finish takes a round's outcome.
func (w *worker) finish(r *round, stats []tiers.SplitStats, seconds float64, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.round = nil
	switch {
	case errors.Is(err, ErrFenced):
		return err
	case r.dropped:
		return nil
	case errors.Is(err, ErrStale):
		w.log.Info("the generation is over; waiting for recovery", "generation", r.generation, "clock", r.clock)
		w.giveUp()
		return nil
	case err != nil:
		return fmt.Errorf("working on clock %d of splits %v: %w", r.clock, r.splits, err)
	}
	for _, id := range r.splits {
		w.splits[id].next = r.clock + 1
	}
	w.report(tiers.Progress{Generation: r.generation, Clock: r.clock, Splits: stats, Seconds: seconds})
	releases := w.releases
	w.releases = nil
	for _, l := range releases {
		l.done = append(l.done, w.remove(l.waiting)...)
		l.send()
	}
	return nil
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
		w.drop()
	}
}

// drop ends the round under way, whatever it is doing.
func (w *worker) drop() {
	if w.round != nil {
		w.round.dropped = true
		w.round.cancel(errBrokenOff)
	}
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
