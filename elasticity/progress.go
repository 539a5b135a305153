package elasticity

import (
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// progress is how far the work has come, by what workers report after each commit. A worker that dies between
// its commit and its report leaves clocks whose figures are incomplete: what is known of the commit itself comes
// from the partitions then (settleSplits) or from a committed cut.
type progress struct {
	done     ps.Clock   // every split has committed all clocks up to it
	marks    []ps.Clock // per split, the last clock known to be committed
	furthest ps.Clock   // highest clock that was ever done: up to it, work is done again
	figures  []figures  // of the clocks after done, in order, as far as any split has reported
	spare    []figures  // to be used again
	since    time.Time  // when the last clock was done
	seconds  float64    // wall-clock length of the last clock
}

// figures are what was measured in one clock.
type figures struct {
	known  int                // splits that have reported
	splits []tiers.SplitStats // Index: Split; all zero for those that have not
	told   []bool             // Index: Split
}

func newProgress(splits int, at ps.Clock) progress {
	p := progress{done: at, furthest: at, marks: make([]ps.Clock, splits)}
	for i := range p.marks {
		p.marks[i] = at
	}
	return p
}

// of returns the figures of a clock after done.
func (p *progress) of(clock ps.Clock) *figures {
	for ahead := int(clock - p.done); len(p.figures) < ahead; {
		var f figures
		if n := len(p.spare); n > 0 {
			f, p.spare = p.spare[n-1], p.spare[:n-1]
		} else {
			f = figures{splits: make([]tiers.SplitStats, len(p.marks)), told: make([]bool, len(p.marks))}
		}
		p.figures = append(p.figures, f)
	}
	return &p.figures[clock-p.done-1]
}

func (f *figures) add(s tiers.SplitStats) {
	if !f.told[s.Split] {
		f.told[s.Split] = true
		f.known++
	}
	f.splits[s.Split] = s
}

// sum adds the splits up. Work that nobody has reported is taken to be as much as that of the others.
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

// next goes on to the clock after done.
func (p *progress) next() {
	p.done++
	p.furthest = max(p.furthest, p.done)
	if len(p.figures) > 0 {
		p.forget(0, 1)
	}
}

// rollback forgets everything beyond a cut and gives how many complete clocks are lost.
func (p *progress) rollback(cut ps.Clock) (lost ps.Clock) {
	lost = p.done - cut
	p.forget(0, len(p.figures))
	for i := range p.marks {
		p.marks[i] = cut
	}
	p.done = cut
	return lost
}

func (p *progress) forget(from, to int) {
	for _, f := range p.figures[from:to] {
		clear(f.splits)
		clear(f.told)
		f.known = 0
		p.spare = append(p.spare, f)
	}
	p.figures = slices.Delete(p.figures, from, to)
}

func (c *Controller) takeProgress(m *machine, r tiers.Progress) {
	p := &c.progress
	if c.recovery != nil || r.Generation != c.generation || r.Clock <= p.done {
		return // told before, or of a generation that is given up
	}
	if c.metered {
		m.meter.worked(r)
	}
	for _, s := range r.Splits {
		if !c.cfg.Silent {
			p.of(r.Clock).add(s)
		}
		p.marks[s.Split] = max(p.marks[s.Split], r.Clock)
	}
	c.checkClock()
}

// reached says that a split has committed a clock, whoever may have failed to report it.
func (c *Controller) reached(split ps.Split, clock ps.Clock) {
	c.progress.marks[split] = max(c.progress.marks[split], clock)
}

func (c *Controller) checkClock() {
	for c.progress.done < slices.Min(c.progress.marks) {
		c.clockDone(c.progress.done + 1)
	}
	if c.bareCut() {
		c.checkCut()
	}
}

func (c *Controller) clockDone(clock ps.Clock) {
	p := &c.progress
	p.seconds = 0
	if !p.since.IsZero() { // else a controller has just taken over, and nobody knows when the clock before was done
		p.seconds = c.wall(c.now.Sub(p.since))
	}
	p.since = c.now
	c.record(func() journal.Entry {
		sum := p.of(clock).sum()
		entry := journal.Entry{
			Kind: journal.ClockDone, Clock: int64(clock), Seconds: p.seconds, Work: sum.Work, Redone: clock <= p.furthest,
			TrainLoss: c.loss(sum.Loss, sum.Examples), TestLoss: c.loss(sum.TestLoss, sum.TestCount),
		}
		for _, m := range c.members() {
			if m.splits > 0 {
				entry.Count++
			}
		}
		entry.Transient, entry.Reliable = tiers.Count(c.tierMembers())
		return entry
	})
	c.judge(clock)
	c.measure()
	p.next()
}

// judge applies the stopping rules to what a clock measured.
func (c *Controller) judge(clock ps.Clock) {
	rules := c.cfg.Job.Stop
	if !rules.Any() || c.enough != "" || clock <= c.progress.furthest || clock%max(c.cfg.Job.EvalEvery, 1) != 0 {
		return
	}
	sum := c.progress.of(clock).sum()
	figure := c.loss(sum.TestLoss, sum.TestCount)
	if figure == nil {
		figure = c.loss(sum.Loss, sum.Examples)
	}
	if figure != nil {
		c.enough = c.watch.Measured(rules, int64(clock), c.cfg.Job.Figure, *figure)
	}
}

// loss returns the job's metric of a sum over examples; nil when nothing was measured.
func (c *Controller) loss(sum float64, n int64) *float64 {
	if n == 0 {
		return nil
	}
	v := sum / float64(n)
	if c.cfg.Job.Metric != nil {
		v = c.cfg.Job.Metric(v)
	}
	return &v
}

// fail ends the run at once: what was committed is in the journal and in the last checkpoint.
func (c *Controller) fail(why string) {
	if c.ending {
		return
	}
	c.outcome, c.failWhy = "failed", why
	c.endAll(why)
}

// endAll terminates every machine. The run finishes when the provider says that all are gone.
func (c *Controller) endAll(why string) {
	c.ending = true
	c.cut, c.halt, c.recovery, c.settle, c.saves.now = nil, nil, nil, nil, nil
	clear(c.moves)
	for _, m := range c.ordered(func(m *machine) bool { return !m.ended }) {
		c.terminate(m, why)
	}
}

// advanceEnd finishes once every machine is gone and no launch is unanswered.
func (c *Controller) advanceEnd() {
	if c.stopWhy != "" && !c.standing() && c.adopting == nil && !c.ending {
		c.outcome = "interrupted"
		c.endAll(c.stopWhy)
	}
	if !c.ending || c.finished {
		return
	}
	if c.mayTurnUp() {
		return
	}
	for _, l := range c.launches {
		if !l.answered {
			return
		}
	}
	for _, m := range c.roster {
		if !m.ended || !m.charged && !c.awake.Over(m.sawEnd, ChargeWait(c.cfg.Settings)) {
			return
		}
	}
	c.finished = true
	for _, m := range c.roster {
		if !m.charged {
			c.record(func() journal.Entry { return UnknownCharge(string(m.id), m.pool, m.launched, m.endedAt, ErrNoPrices) })
		}
	}
	why := c.failWhy
	if why == "" {
		why = c.stopWhy
	}
	if why == "" {
		why = c.enough
	}
	c.record(func() journal.Entry {
		done := journal.Entry{Kind: journal.Done, Outcome: c.outcome, Clock: int64(c.progress.done), Why: why}
		if c.crashLoop != nil && why == c.crashLoop.why {
			done.Log = c.crashLoop.log
		}
		return done
	})
	c.act(Finish{Outcome: c.outcome})
}
