package sim

import (
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// As long as nothing happens one clock is like the other: all machines begin it together and are done after the same
// times. When nobody reads a journal such clocks are not gone through one by one. All but the last before the next event
// are done in one go (skip), and the controller hears of them when it is told something else (tellUntil): at rest it does
// nothing about them. So a start costs as much as there are events that change something, and comes to the same.

// clocks are some that are done, one every length from first on; they have not been told yet.
type clocks struct {
	node   *node // that tells of them
	from   ps.Clock
	count  int
	first  time.Duration // when the controller is to hear of the first
	length time.Duration
	took   float64 // wall-clock seconds each
}

// lazily says whether the controller may hear later of clocks.
func (f *fleet) lazily() bool { return f.w.cfg.Record == nil && f.ctrl.Resting() }

// skip does whole clocks until shortly before the next event, if all that changes in them is their number.
func (f *fleet) skip() {
	if !f.lazily() || len(f.w.queue.heap) == 0 {
		return
	}
	now, last := f.w.elapsed, f.steady()
	if last == nil {
		return
	}
	length := last.finish - now
	n := int((f.w.queue.heap[0].at - now - 1) / length)
	n = min(n, int(f.w.cfg.Job.Clocks-f.complete-1))
	if f.cut > 0 {
		n = min(n, int(f.cut-f.complete-1))
	}
	if n < 1 {
		return
	}
	f.untold = append(f.untold, clocks{
		node: last, from: f.complete + 1, count: n, first: now + length + f.w.cfg.Timing.Reply, length: length,
		took: length.Seconds() / f.w.cfg.Timing.Speed,
	})
	f.complete += ps.Clock(n)
	for i := range f.splits {
		f.splits[i].next += ps.Clock(n)
	}
	for _, m := range f.nodes {
		if m.busy {
			m.begun, m.finish = m.begun+time.Duration(n)*length, m.finish+time.Duration(n)*length
		}
	}
}

// steady gives the machine that is done last with the present clock, if every machine has just begun it with all its
// splits, as it will begin the next; otherwise nil.
func (f *fleet) steady() (last *node) {
	for i := range f.splits {
		if s := &f.splits[i]; !s.working || s.left != 1 || s.holder.begun != f.w.elapsed || s.next != f.complete+1 {
			return nil
		}
	}
	for _, n := range f.nodes {
		switch {
		case len(n.releases) > 0 || n.busy && (n.begun != f.w.elapsed || n.until < f.w.cfg.Job.Clocks):
			return nil
		case n.busy && (last == nil || n.finish > last.finish):
			last = n
		}
	}
	return last
}

// tellUntil tells the controller of clocks that it should have heard of by now: of the last, and of the one before, from
// which it has the length of the last.
func (f *fleet) tellUntil(now time.Duration) {
	if f.w.rank < reports {
		now-- // what is reported at the same instant comes later
	}
	for len(f.untold) > 0 && f.untold[0].first <= now {
		u := &f.untold[0]
		n := u.count
		if u.length > 0 {
			n = min(n, int((now-u.first)/u.length)+1)
		}
		for i := max(n-2, 0); i < n; i++ {
			if u.node.alive {
				at := u.first + time.Duration(i)*u.length
				f.w.do(f.w.ctrl.Step(f.w.cfg.Start.Add(at), elasticity.Reported{ID: u.node.id, Report: u.node.progress(u.from+ps.Clock(i), u.took)}))
			}
		}
		if n < u.count {
			u.from, u.count, u.first = u.from+ps.Clock(n), u.count-n, u.first+time.Duration(n)*u.length
			return
		}
		f.untold = f.untold[1:]
	}
}

// tellAll has the controller told of all clocks in time, once it does not rest any longer.
func (f *fleet) tellAll() {
	if f.ctrl.Resting() {
		return
	}
	for _, u := range f.untold {
		for i := range u.count {
			u.node.tellAt(u.first+time.Duration(i)*u.length, reports, u.node.progress(u.from+ps.Clock(i), u.took))
		}
	}
	f.untold = f.untold[:0]
}

// progress tells of a clock for all splits.
func (n *node) progress(clock ps.Clock, took float64) tiers.Progress {
	f := n.f
	if f.stats == nil {
		f.stats = make([]tiers.SplitStats, len(f.splits))
		for i := range f.stats {
			f.stats[i] = tiers.SplitStats{Split: ps.Split(i), Work: f.w.workPerSplit()}
		}
	}
	return tiers.Progress{Generation: n.generation, Clock: clock, Seconds: took, Splits: f.stats}
}
