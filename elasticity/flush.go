package elasticity

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
)

// What is saved of the work of servers that have warnings is planned by bytes and seconds left: what cannot finish in time
// is not started (docs/training.md, Warned eviction). In this order, the first that fits:
//
//	flush   everything that has begun is finished and delivered; nothing is lost
//	cut     the clock under way is delivered as an ordinary cut; with staleness, what is begun beyond it is given up
//	serve   the last committed cut serves; what came after it is given up and will be done again
type salvage int

const (
	undecided salvage = iota
	flushAll
	cutOnly
	giveUpRest
)

// endOfLife is a plan with the figures that it rests on, in wall-clock seconds.
type endOfLife struct {
	do      salvage
	left    float64
	clock   float64 // until the clock under way is done
	begun   float64 // until everything that has begun is
	bytes   int64   // that a cut would have to deliver now
	deliver float64 // that this takes at the backups
}

// longestNotice is more than any provider gives, on the wall clock.
const longestNotice = 2 * time.Minute

// byOurClock returns when a machine with a warning goes, by this clock. The provider's deadline is by its own, which may be minutes
// away: one that is further off than any notice is long, or over although the machine was warned just now, is none that work
// can be planned with. Of a notice that cannot be dated half is taken to be left; that a flush is not tried loses work for sure.
func (c *Controller) byOurClock(deadline time.Time) time.Time {
	notice := c.cfg.Notice
	latest := c.now.Add(max(notice, c.cfg.Market(longestNotice)))
	switch {
	case notice <= 0:
		return deadline
	case !deadline.After(c.now):
		return c.now.Add(notice / 2)
	case deadline.After(latest):
		return latest
	}
	return deadline
}

// planEndOfLife plans with the first deadline of a warned owner. Each backup takes in its part; they do so side by side.
func (c *Controller) planEndOfLife() endOfLife {
	var deadline time.Time
	p := endOfLife{clock: c.progress.seconds}
	for _, m := range c.roster {
		if m.lost || !m.member() || !slices.Contains(c.route.Owner, m.id) {
			continue
		}
		p.bytes += m.stats.CutBytes
		if m.warned && (deadline.IsZero() || m.deadline.Before(deadline)) {
			deadline = m.deadline
		}
	}
	p.left = c.wall(deadline.Sub(c.now))
	p.begun = p.clock
	p.begun *= float64(min(c.ahead(), c.cfg.Job.Schema.Bound()) + 1) // the fastest may be so far ahead
	if c.pace.rate > 0 {
		p.deliver = float64(p.bytes) / float64(max(len(holdersOf(c.route.Backup)), 1)) / c.pace.rate
	}
	switch {
	case p.begun+p.deliver < p.left:
		p.do = flushAll
	case p.clock+p.deliver < p.left:
		p.do = cutOnly
	default:
		p.do = giveUpRest
	}
	return p
}

// ahead is how many clocks beyond the one under way some split has committed.
func (c *Controller) ahead() ps.Clock {
	return max(slices.Max(c.progress.marks)-c.progress.done-1, 0)
}

// String says the plan with its figures.
func (p endOfLife) String() string {
	figures := fmt.Sprintf("%s in %.2f s", size(p.bytes), p.deliver)
	switch p.do {
	case flushAll:
		return fmt.Sprintf("everything begun is flushed: %.2f s of work and %s fit into the %.2f s left; nothing is given up",
			p.begun, figures, p.left)
	case cutOnly:
		return fmt.Sprintf("the clock under way is flushed: %.2f s of work and %s fit into the %.2f s left; what is begun beyond it, %.2f s, is given up",
			p.clock, figures, p.left, p.begun)
	}
	return fmt.Sprintf("nothing can be flushed: %.2f s of work and %s do not fit into the %.2f s left; work since the last cut is given up",
		p.clock, figures, p.left)
}

// planFlush plans what is saved when every server is about to go, and writes a new plan down. A cut alone is due at once.
func (c *Controller) planFlush() {
	if c.halt != nil || c.now.Before(c.gathering) {
		return // it is under way; or there may be more warnings in a moment
	}
	if !c.standing() || c.recovery != nil || c.ending || !c.wantsFlush() {
		c.salvage = undecided
		return
	}
	p := c.planEndOfLife()
	if p.do == c.salvage || c.salvage != undecided && p.do < c.salvage && p.left < 1.2*(p.begun+p.deliver) {
		return // figures waver; what was given up comes back only if there is room
	}
	c.salvage = p.do
	if p.do == cutOnly {
		c.cutDue = c.now
	}
	c.record(func() journal.Entry {
		return journal.Entry{Kind: journal.Flush, Clock: int64(c.committed), Bytes: p.bytes, Seconds: p.left, Why: p.String()}
	})
}

// moveTime is about how many wall-clock seconds so many partitions take to another machine; 0 where nobody knows.
func (c *Controller) moveTime(partitions int) float64 {
	if c.pace.rate == 0 {
		return 0
	}
	return float64(c.cfg.Job.Schema.StateBytes()) / float64(len(c.route.Owner)) * float64(partitions) / c.pace.rate
}

// leavesInTime says how many of its partitions a machine with a warning can still hand over: those that cannot finish in
// time are not started. A machine without one has all the time that it takes.
func (c *Controller) leavesInTime(m *machine, partitions int) int {
	if !m.warned {
		return partitions
	}
	each := c.moveTime(1)
	if each == 0 {
		return partitions
	}
	left := c.wall(m.deadline.Sub(c.now)) * (1 - flushMargin/2)
	return max(min(partitions, int(left/each)), 0)
}

// soonest orders owners for a cut: those with the least time left are asked, and deliver, first.
func soonest(a, b *machine) int {
	switch {
	case a.warned && b.warned:
		return a.deadline.Compare(b.deadline)
	case a.warned:
		return -1
	case b.warned:
		return 1
	}
	return 0
}
