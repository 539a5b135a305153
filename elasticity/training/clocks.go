package training

import (
	"slices"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/stopping"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// clocks counts the completed work, and judges whether the model is good enough.
//
// Invariant: Done is the minimum of Marks or, if that is later, floor, and every owner has committed what they say, unless a recovery is
// about to undo it. Owners may be ahead: a worker reports after its commit, and may die in between. Then the owners report its progress
// (settleSplits), or a committed cut does (cutReached). Reports of older generations are dropped: a roll-back has reset all marks to the
// cut.
type clocks struct {
	*step.Step
	*progress
	cfg    *Config
	nodes  *nodes
	layout *layout
	load   *load
	Watch  stopping.Watch
	behind int                                 // a split that held the clock back at the last check
	after  func(clock ps.Clock, loss *float64) // is called for each completed clock
}

// Over reports whether the work is done.
func (cl *clocks) Over() bool {
	return cl.Enough != "" || cl.Done >= cl.cfg.Job.Clocks && cl.cfg.Job.Clocks > 0
}

// ahead returns how many clocks beyond the current one some split has committed.
func (cl *clocks) ahead() ps.Clock {
	return max(cl.highest()-cl.Done-1, 0)
}

// take processes a worker's report. It reports whether it was new.
func (cl *clocks) take(m *Node, r tiers.Progress) bool {
	p := cl.progress
	if r.Generation != cl.layout.Generation || r.Clock <= p.Done {
		return false // already known, or of a generation that was given up
	}
	if cl.load.metered {
		m.Meter.worked(r)
	}
	if !cl.Silent {
		for i := range r.Splits {
			p.of(r.Clock).add(r.Splits[i])
		}
	}
	if len(r.Splits) == len(p.Marks) { // a report has a split at most once, so these are all
		p.floor = max(p.floor, r.Clock)
		return true
	}
	for i := range r.Splits {
		cl.reached(r.Splits[i].Split, r.Clock)
	}
	return true
}

// reached records that a split has committed a clock, even if no worker reported it.
func (cl *clocks) reached(split ps.Split, clock ps.Clock) {
	cl.Marks[split] = max(cl.Marks[split], clock)
}

// advance counts every complete clock. It is called for every report, so it looks at all splits only when the one that held the clock back
// no longer does.
func (cl *clocks) advance() {
	for {
		if cl.floor <= cl.Done { // otherwise no split is behind
			if cl.Marks[cl.behind] <= cl.Done {
				return
			}
			if i := slices.IndexFunc(cl.Marks, func(c ps.Clock) bool { return c <= cl.Done }); i >= 0 {
				cl.behind = i
				return
			}
		}
		cl.clockDone(cl.Done + 1)
	}
}

func (cl *clocks) clockDone(clock ps.Clock) {
	p := cl.progress
	p.Seconds = 0
	if !p.since.IsZero() { // otherwise a controller has just taken over, and the end of the previous clock is unknown
		p.Seconds = cl.Wall(cl.Now.Sub(p.since))
	}
	p.since = cl.Now
	cl.Record(func() journal.Entry {
		sum := p.of(clock).sum()
		entry := journal.Entry{
			Kind: journal.ClockDone, Clock: int64(clock), Seconds: p.Seconds, Work: sum.Work, Redone: clock <= p.furthest,
			TrainLoss: cl.loss(sum.Loss, sum.Examples), TestLoss: cl.loss(sum.TestLoss, sum.TestCount),
		}
		for _, m := range cl.nodes.Members() {
			if m.Splits > 0 {
				entry.Count++
			}
		}
		entry.Transient, entry.Reliable = tiers.Count(cl.nodes.tierMembers())
		return entry
	})
	cl.judge(clock)
	cl.load.Measure()
	loss := cl.trainLoss(clock)
	p.next()
	cl.after(clock, loss)
}

// judge applies the stopping rules to what a clock measured.
func (cl *clocks) judge(clock ps.Clock) {
	rules := cl.cfg.Job.Stop
	if !rules.Any() || cl.Enough != "" || clock <= cl.furthest || clock%max(cl.cfg.Job.EvalEvery, 1) != 0 {
		return
	}
	sum := cl.of(clock).sum()
	figure := cl.loss(sum.TestLoss, sum.TestCount)
	if figure == nil {
		figure = cl.loss(sum.Loss, sum.Examples)
	}
	if figure != nil {
		cl.Enough = cl.Watch.Measured(rules, int64(clock), cl.cfg.Job.Figure, *figure)
	}
}

// trainLoss returns a clock's measurement on its training examples; nil = none.
func (cl *clocks) trainLoss(clock ps.Clock) *float64 {
	if cl.Silent {
		return nil
	}
	sum := cl.of(clock).sum()
	return cl.loss(sum.Loss, sum.Examples)
}

// loss returns the job's metric of a sum over examples; nil if nothing was measured.
func (cl *clocks) loss(sum float64, n int64) *float64 {
	if n == 0 {
		return nil
	}
	v := sum / float64(n)
	if cl.cfg.Job.Metric != nil {
		v = cl.cfg.Job.Metric(v)
	}
	return &v
}

// measured replays earlier measurements to the stopping rules, which decide again at the next measurement.
func (cl *clocks) measured(figures []PastFigure) {
	for _, f := range figures {
		if rules := cl.cfg.Job.Stop; rules.Any() && f.Clock%max(cl.cfg.Job.EvalEvery, 1) == 0 {
			cl.Watch.Measured(rules, int64(f.Clock), cl.cfg.Job.Figure, f.Figure)
		}
	}
}
