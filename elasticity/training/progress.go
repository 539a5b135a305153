package training

import (
	"slices"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// progress is the amount of work done, as workers report it after each commit. A worker that dies between its commit and its report leaves
// clocks with incomplete figures; the partitions (settleSplits) or a committed cut then show what was committed.
type progress struct {
	Done     ps.Clock   // last clock that every split has committed
	Marks    []ps.Clock // per split, the last clock known to be committed, if it is after floor
	floor    ps.Clock   // every split has committed it: a cut, or a report of all splits, does not visit each mark
	furthest ps.Clock   // highest clock ever done: up to it, work is repeated
	figures  []figures  // of the clocks after done, in order, as far as any split has reported
	spare    []figures  // for reuse
	since    time.Time  // when the last clock was done
	Seconds  float64    // wall-clock length of the last clock
}

// figures are the measurements of one clock.
type figures struct {
	known  int                // splits that have reported
	splits []tiers.SplitStats // Index: Split; zero for those that have not reported
	told   []bool             // Index: Split
}

func newProgress(splits int, at ps.Clock) progress {
	p := progress{Done: at, furthest: at, floor: at, Marks: make([]ps.Clock, splits)}
	for i := range p.Marks {
		p.Marks[i] = at
	}
	return p
}

// of returns the figures of a clock after done.
func (p *progress) of(clock ps.Clock) *figures {
	for ahead := int(clock - p.Done); len(p.figures) < ahead; {
		var f figures
		if n := len(p.spare); n > 0 {
			f, p.spare = p.spare[n-1], p.spare[:n-1]
		} else {
			f = figures{splits: make([]tiers.SplitStats, len(p.Marks)), told: make([]bool, len(p.Marks))}
		}
		p.figures = append(p.figures, f)
	}
	return &p.figures[clock-p.Done-1]
}

func (f *figures) add(s tiers.SplitStats) {
	if !f.told[s.Split] {
		f.told[s.Split] = true
		f.known++
	}
	f.splits[s.Split] = s
}

// sum adds the splits up. Unreported work counts as the mean of the others'.
func (f *figures) sum() (sum tiers.SplitStats) {
	for i := range f.splits { // in order: sums of floats depend on it
		s := &f.splits[i]
		sum.Examples += s.Examples
		sum.Loss += s.Loss
		sum.TestCount += s.TestCount
		sum.TestLoss += s.TestLoss
		sum.Work += s.Work
	}
	if f.known > 0 {
		sum.Work *= float64(len(f.splits)) / float64(f.known)
	}
	return sum
}

// next advances to the clock after done.
func (p *progress) next() {
	p.Done++
	p.furthest = max(p.furthest, p.Done)
	if len(p.figures) > 0 {
		p.forget(0, 1)
	}
}

// rollback forgets everything beyond a cut and returns how many complete clocks are lost.
func (p *progress) rollback(cut ps.Clock) (lost ps.Clock) {
	lost = p.Done - cut
	p.forget(0, len(p.figures))
	for i := range p.Marks {
		p.Marks[i] = cut
	}
	p.Done, p.floor = cut, cut
	return lost
}

// highest returns the last clock that any split is known to have committed.
func (p *progress) highest() ps.Clock { return max(slices.Max(p.Marks), p.floor) }

func (p *progress) forget(from, to int) {
	for _, f := range p.figures[from:to] {
		clear(f.splits)
		clear(f.told)
		f.known = 0
		p.spare = append(p.spare, f)
	}
	p.figures = slices.Delete(p.figures, from, to)
}
