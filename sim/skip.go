package sim

import (
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// While nothing happens, all clocks are alike: all machines begin each together and take the same times. Without a
// journal such clocks are not simulated one by one: a steady period begins, in which progress depends on the elapsed
// time only. It ends when a machine gets a command about its work, or ends, or an unlike clock comes; cuts do not end
// it. Meanwhile the resting controller gets reports of clocks only before another event. So the cost of a start depends
// on the number of events that change something, with the same result.

// steadyPeriod is a time in which clocks follow each other evenly.
type steadyPeriod struct {
	clocks               // its clocks that were not reported yet
	since  time.Duration // when its first clock was begun
	limit  int           // the most clocks that it can have; 0 = no steady period
}

// clocks are completed ones, one per length starting at first, that were not reported yet.
type clocks struct {
	node   *node // the node that reports them
	from   ps.Clock
	count  int
	first  time.Duration // when the controller learns of the first
	length time.Duration
	took   float64 // wall-clock seconds each
}

// lazily reports whether the controller may learn of clocks later.
func (f *fleet) lazily() bool { return f.w.cfg.Record == nil && f.ctrl.Resting() }

// settle begins a steady period, if clocks for some time differ only in their numbers. It ends before the last clock.
func (f *fleet) settle() bool {
	if !f.lazily() {
		return false
	}
	last, count := f.steady(), f.w.cfg.Job.Clocks-f.complete-1
	if last == nil || count < 1 {
		return false
	}
	length := last.finish - f.w.elapsed
	f.calm = steadyPeriod{since: f.w.elapsed, limit: int(count), clocks: clocks{
		node: last, from: f.complete + 1, count: int(count), first: last.finish + f.w.cfg.Timing.Reply, length: length,
		took: length.Seconds() / f.w.cfg.Timing.Speed,
	}}
	f.due = f.w.elapsed + time.Duration(count)*length
	f.w.queue.push(f.due, reports, f.ticks)
	f.expectCut()
	return true
}

// done returns the clock that is complete by now, also in a steady period.
func (f *fleet) done() ps.Clock {
	c := &f.calm
	if c.limit == 0 {
		return f.complete
	}
	return f.complete + ps.Clock(min(c.limit, int((f.w.elapsed-c.since)/c.length)))
}

// expectCut schedules the named cut for when a steady period reaches its clock.
func (f *fleet) expectCut() {
	c := &f.calm
	if n := int(f.cut - f.complete); n > 0 && n <= c.limit {
		f.w.queue.push(max(c.since+time.Duration(n)*c.length, f.w.elapsed), reports, f.offers)
	}
}

// rouse ends a steady period: clocks that have ended by now are done, and will be reported in time.
func (f *fleet) rouse() {
	c := f.calm
	if c.limit == 0 {
		return
	}
	now := f.done()
	done, told := int(now-f.complete), int(c.from-f.complete-1)
	f.calm, f.complete = steadyPeriod{}, now
	for i := range f.splits {
		f.splits[i].next += ps.Clock(done)
	}
	for _, n := range f.nodes {
		if n.busy {
			n.begun, n.finish = n.begun+time.Duration(done)*c.length, n.finish+time.Duration(done)*c.length
			n.agent.Skip(ps.Clock(done))
		}
	}
	if c.count = done - told; c.count > 0 {
		f.untold = append(f.untold, c.clocks)
		f.deliverAll()
	}
}

// steady returns the machine that finishes the present clock last, if every machine has just begun it with all its
// splits, as it will begin the next; otherwise nil.
func (f *fleet) steady() (last *node) {
	working := 0
	for _, n := range f.nodes {
		switch {
		case n.agent.Releasing() || n.busy && (n.round == nil || n.begun != f.w.elapsed || n.agent.Until < f.w.cfg.Job.Clocks || n.round.Clock != f.complete+1):
			return nil
		case n.busy:
			if working += len(n.round.Splits); last == nil || n.finish > last.finish {
				last = n
			}
		}
	}
	if working < len(f.splits) || slices.ContainsFunc(f.splits, func(s split) bool { return s.left != 1 }) {
		return nil
	}
	return last
}

// deliverBefore reports to the controller the clocks that are due before a time.
func (f *fleet) deliverBefore(now time.Duration) {
	f.deliverUntil(now-1, func(at time.Duration, e elasticity.Event) { f.w.do(f.ctrl.Step(f.w.cfg.Start.Add(at), e)) })
}

// deliverNow returns the reports of clocks that are due at a time, once those before have been delivered.
func (f *fleet) deliverNow(now time.Duration) (news []elasticity.Event) {
	f.deliverUntil(now, func(_ time.Duration, e elasticity.Event) { news = append(news, e) })
	return news
}

func (f *fleet) deliverUntil(now time.Duration, say func(time.Duration, elasticity.Event)) {
	for len(f.untold) > 0 {
		if f.deliver(&f.untold[0], now, say); f.untold[0].count > 0 {
			return
		}
		f.untold = slices.Delete(f.untold, 0, 1)
	}
	if f.calm.count > 0 {
		f.deliver(&f.calm.clocks, now, say)
	}
}

// deliver reports the clocks that are due: the last, and the one before, from which the controller computes the length
// of the last.
func (f *fleet) deliver(c *clocks, now time.Duration, say func(time.Duration, elasticity.Event)) {
	if c.first > now {
		return
	}
	n := 1
	if c.length > 0 {
		n = min(c.count, int((now-c.first)/c.length)+1)
	}
	for i := max(n-2, 0); i < n && c.node.alive; i++ {
		say(c.first+time.Duration(i)*c.length, elasticity.Reported{ID: c.node.id, Report: c.node.progress(c.from+ps.Clock(i), c.took)})
	}
	c.from, c.count, c.first = c.from+ps.Clock(n), c.count-n, c.first+time.Duration(n)*c.length
}

// deliverAll reports all clocks to the controller in time, once it no longer rests: those of a steady period one by
// one, as it may rest again.
func (f *fleet) deliverAll() {
	if f.ctrl.Resting() {
		return
	}
	for _, u := range f.untold {
		for i := range u.count {
			u.node.reportAt(u.first+time.Duration(i)*u.length, reports, u.node.progress(u.from+ps.Clock(i), u.took))
		}
	}
	f.untold = f.untold[:0]
	if c := &f.calm; c.count > 0 && f.telling != c.first {
		f.telling = c.first
		f.w.queue.push(c.first, reports, func() {
			if f.calm.count > 0 {
				f.deliver(&f.calm.clocks, f.w.elapsed, func(_ time.Duration, e elasticity.Event) { f.w.step(e) })
			}
		})
	}
}

// progress reports a clock for all splits.
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
