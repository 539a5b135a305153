package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// LongestNotice exceeds any provider's notice, in wall-clock time.
const LongestNotice = 2 * time.Minute

// takeWarned records that a machine will be reclaimed. It reports whether a decision may be due.
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
			return true // already reported
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
	f.Reliable.lost = f.Reliable.lost || m.Tier == step.Reliable // a replacement is bought while it still runs
	return f.work.Warned(&m.Machine)
}

// gathering delays decisions about a whole fleet while more notices are expected: after the first ones of an eviction, part of the fleet
// would seem to stay.
type gathering struct {
	fleet  *Fleet
	until  time.Time
	outbid market.Pool // its price exceeds a refused bid, but has not been reported yet; zero = none
	due    []*Machine  // machines whose notices are expected, as their pool's price exceeds their bids
}

// warned waits for the notices that are due, or else briefly for others of the same eviction.
func (g *gathering) warned() {
	f := g.fleet
	if g.due = slices.DeleteFunc(g.due, func(m *Machine) bool { return !m.Staying() }); len(g.due) > 0 && f.Now.Before(g.until) {
		return
	}
	if until := f.Now.Add(f.cfg.NoticeWait); f.cfg.Whole && (!f.Now.Before(g.until) || until.Before(g.until)) {
		g.until = until
	}
}

// refused handles a bid below a price that has not been reported yet. At the last known price, the policy would leave a pool in which it
// would otherwise raise its bid.
func (g *gathering) refused(pool market.Pool) {
	if g.fleet.cfg.Whole {
		g.outbid, g.until = pool, g.fleet.Now.Add(g.fleet.cfg.JoinWait)
	}
}

// priced handles a new price. Outbid machines are being reclaimed: the policy decides once their notices have arrived, in whatever order
// price and notices are reported. Booting machines have no agent yet to report a notice: it shows in the provider's list, which takes
// longer on a busy computer.
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

// byOurClock returns when a warned machine will go, by this clock. The provider's clock may differ by minutes: a deadline beyond the
// longest notice, or in the past although the machine was warned just now, cannot be used for planning. If the notice cannot be dated, half
// of it is assumed to remain: not trying to flush would surely lose work.
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
