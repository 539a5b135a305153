package cost

import (
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// training tracks the clocks.
type training struct {
	points    []clockPoint
	newest    map[int64]float64 // work of each clock, as last done
	at        int64             // the model contains the clocks up to this one
	done      float64           // all work, including what was undone or repeated
	lost      int64             // clocks that roll-backs undid
	rollbacks int
}

// clockPoint is a clock that was completed.
type clockPoint struct {
	at          time.Time
	clock       int64
	train, test *float64
	seconds     float64 // wall-clock
	redone      bool
}

// clock records a completed clock. It counts as redone if the journal says so or if it was done before.
func (t *training) clock(e journal.Entry) {
	if t.newest == nil {
		t.newest = map[int64]float64{}
	}
	_, before := t.newest[e.Clock]
	redone := e.Redone || before
	t.newest[e.Clock], t.at = e.Work, e.Clock
	t.done += e.Work
	t.points = append(t.points, clockPoint{
		at: e.T, clock: e.Clock, train: e.TrainLoss, test: e.TestLoss, seconds: e.Seconds, redone: redone,
	})
}

// rollback returns to the cut from which the run continues. That may be a checkpoint after the last clock: it was not complete when the run
// restarted from the previous one, and its clocks had been done before that.
func (t *training) rollback(e journal.Entry) {
	t.rollbacks++
	t.lost += e.LostClocks
	t.at = e.Clock
}

// work returns how many clocks the model contains, and their work, each once. The sum does not depend on map order.
func (t *training) work() (clocks int, sum float64) {
	for _, c := range slices.Sorted(maps.Keys(t.newest)) {
		if c <= t.at {
			clocks++
			sum += t.newest[c]
		}
	}
	return clocks, sum
}

// redone counts the clocks that were repeated.
func (t *training) redone() (n int) {
	for _, p := range t.points {
		if p.redone {
			n++
		}
	}
	return n
}

// redoneIntervals returns when the run repeated clocks: from the completion of the previous clock, derived from the entry's seconds, to
// theirs.
func (t *training) redoneIntervals(toMarket func(time.Duration) time.Duration) []interval {
	var out []interval
	for _, p := range t.points {
		if p.redone {
			length := toMarket(time.Duration(p.seconds * float64(time.Second)))
			out = append(out, interval{p.at.Add(-length), p.at})
		}
	}
	return merge(out)
}

// best returns the point with the smallest test loss, the first if several are equal.
func (t *training) best() (clockPoint, bool) {
	var best clockPoint
	for _, p := range t.points {
		if p.test != nil && (best.test == nil || *p.test < *best.test) {
			best = p
		}
	}
	return best, best.test != nil
}

// reached returns the first point whose test loss is at most the limit.
func (t *training) reached(limit float64) (clockPoint, bool) {
	for _, p := range t.points {
		if p.test != nil && *p.test <= limit {
			return p, true
		}
	}
	return clockPoint{}, false
}

// last returns the last train and test losses that were measured.
func (t *training) last() (train, test *float64) {
	for _, p := range slices.Backward(t.points) {
		if train == nil {
			train = p.train
		}
		if test == nil {
			test = p.test
		}
	}
	return train, test
}
