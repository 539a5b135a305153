package server

import (
	"context"
	"sync"
	"time"

	"github.com/tierml/tierml/ps/wire"
)

// window is when a partition can change hands without delaying a worker: a clock's reads are answered, its first contribution has not
// arrived, and workers compute. (Parameter Service, appendix B: the pull-push window.) An owner does not know how many reads to expect, so
// it assumes the previous clock's number. This affects only performance: a move at any other moment is as correct.
//
// It is guarded by its slot's lock.
type window struct {
	reads  int // reads answered since the last fold
	usual  int // reads between the two folds before
	folded time.Time
	clock  time.Duration // time between these
}

// fold begins the next clock, and wakes waiting requests.
func (s *slot) fold() {
	now := time.Now()
	w := &s.window
	w.usual, w.reads = w.reads, 0
	w.clock, w.folded = now.Sub(w.folded), now
	s.wake()
}

// answered counts a read.
func (s *slot) answered() {
	if s.window.reads++; s.window.reads == s.window.usual && s.state == owned && s.shard.Moving() {
		s.wake()
	}
}

// open reports whether the window is open.
func (s *slot) open() bool { return s.window.reads >= s.window.usual && s.shard.Quiet() }

// Bounds of how long a move waits for a window: 1.5 times the last clock.
const (
	leastPatience = 50 * time.Millisecond
	mostPatience  = 10 * time.Second
)

func (w *window) patience() time.Duration {
	return min(max(w.clock+w.clock/2, leastPatience), mostPatience)
}

// answered counts a read of the partitions that are here.
func (s *places) answered(groups []wire.PartitionStatus) {
	s.term.mu.RLock()
	defer s.term.mu.RUnlock()
	for _, g := range groups {
		if g.Code != wire.OK {
			continue
		}
		slot := s.slots[g.Partition]
		slot.mu.Lock()
		slot.answered()
		slot.mu.Unlock()
	}
}

// turns serialises moves in windows: a partition that is copied within one window need not be sent again.
type turns struct {
	token chan struct{} // present while no move has the turn

	mu     sync.Mutex
	wanted int           // moves that have or await a turn
	hasty  chan struct{} // closed when moves should stop waiting for windows
}

func newTurns() *turns {
	t := &turns{token: make(chan struct{}, 1), hasty: make(chan struct{})}
	t.token <- struct{}{}
	return t
}

// take waits for a turn. Unless it fails, the caller must call give.
func (t *turns) take(ctx context.Context) error {
	t.want(1)
	select {
	case <-t.token:
		return nil
	case <-ctx.Done():
		t.want(-1)
		return ctx.Err()
	}
}

func (t *turns) release() {
	t.want(-1)
	t.token <- struct{}{}
}

func (t *turns) want(more int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wanted += more; t.wanted == 0 {
		t.hasty = make(chan struct{})
	}
}

func (t *turns) hurry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.hasty:
	default:
		if t.wanted > 0 {
			close(t.hasty)
		}
	}
}

// hurried returns a channel that is closed when moves should stop waiting for windows.
func (t *turns) hurried() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hasty
}
