package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// LongestNotice is more than any provider gives, on the wall clock.
const LongestNotice = 2 * time.Minute

// takeWarned records that a machine will go. It reports whether there may be something to do about it.
func (f *Fleet) takeWarned(e Warned) (due bool) {
	m := f.Roster.ByID[e.ID]
	if m == nil {
		if f.Awaiting() {
			f.earlyReports(e.ID).warned = &e
		}
		return true
	}
	if m.Ended || m.Warned || m.Terminating {
		return true
	}
	if e.Rebalance {
		if m.atRisk {
			return true // reported before
		}
		m.atRisk = true
		f.Record(func() journal.Entry {
			return journal.Entry{Kind: journal.Notice, Instance: string(m.ID), Pool: m.Pool.String(),
				Why: "rebalance recommendation: the provider reports a raised risk"}
		})
		return true
	}
	m.Warned, m.Deadline = true, f.byOurClock(e.Deadline)
	f.Record(func() journal.Entry {
		left := m.Deadline
		why := fmt.Sprintf("eviction notice, %.1f s left", f.Wall(left.Sub(f.Now)))
		if !left.Equal(e.Deadline) {
			why += fmt.Sprintf("; the provider says %.1f s, so one of the two clocks is wrong", f.Wall(e.Deadline.Sub(f.Now)))
		}
		return journal.Entry{Kind: journal.Notice, Instance: string(m.ID), Pool: m.Pool.String(), Deadline: &left, Why: why}
	})
	f.WantPlan = true
	f.gathering.warned()
	f.Reliable.lost = f.Reliable.lost || m.Tier == step.Reliable // another is bought while it lasts
	return f.work.Warned(&m.Machine)
}

// gathering delays decisions about a whole fleet while more notices will come: those of one eviction would look like a fleet of which a part stays.
type gathering struct {
	fleet  *Fleet
	until  time.Time
	outbid market.Pool // its price is above a bid that was refused, and not reported yet; zero = there is none
	due    []*Machine  // whose notices are on their way, as the price of their pool is above their bids
}

// warned waits for the notices that are due, and else a little for others of the same eviction.
func (g *gathering) warned() {
	f := g.fleet
	if g.due = slices.DeleteFunc(g.due, func(m *Machine) bool { return !m.Staying() }); len(g.due) > 0 && f.Now.Before(g.until) {
		return
	}
	if until := f.Now.Add(f.cfg.NoticeWait); f.cfg.Whole && (!f.Now.Before(g.until) || until.Before(g.until)) {
		g.until = until
	}
}

// refused: a bid was below a price that is on its way. By the one that is known now the policy would leave a pool that it would bid more in.
func (g *gathering) refused(pool market.Pool) {
	if g.fleet.cfg.Whole {
		g.outbid, g.until = pool, g.fleet.Now.Add(g.fleet.cfg.JoinWait)
	}
}

// priced takes a price. Machines that it outbids are being taken back: the policy decides once their notices are here, whichever of the two is
// reported first. Machines that boot have no agent yet to report theirs: the provider's list has them, which takes a busy computer longer.
func (g *gathering) priced(e PriceChanged) {
	f := g.fleet
	if g.outbid == e.Pool {
		g.outbid, g.until = market.Pool{}, f.Now
		delete(f.markets.deferred, e.Pool)
	}
	if !f.cfg.Whole || len(g.due) > 0 && f.Now.Before(g.until) {
		return
	}
	g.due = g.due[:0]
	for _, m := range f.Roster.List {
		if m.Pool == e.Pool && 0 < m.bid && m.bid < e.Price && m.Staying() {
			g.due = append(g.due, m)
		}
	}
	if len(g.due) > 0 {
		g.until = f.Now.Add(f.cfg.JoinWait)
	}
}

// byOurClock returns when a machine with a warning goes, by this clock. The provider's deadline is by its own, which may be minutes
// away: one that is further off than any notice is long, or over although the machine was warned just now, is none that work
// can be planned with. Of a notice that cannot be dated half is taken to be left; that a flush is not tried loses work for sure.
func (f *Fleet) byOurClock(deadline time.Time) time.Time {
	notice := f.cfg.Notice
	latest := f.Now.Add(max(notice, f.cfg.Market(LongestNotice)))
	switch {
	case notice <= 0:
		return deadline
	case !deadline.After(f.Now):
		return f.Now.Add(notice / 2)
	case deadline.After(latest):
		return latest
	}
	return deadline
}
