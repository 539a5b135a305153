package fleet

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
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
	if f.cfg.Whole && !f.Now.Before(f.gathering) { // else the notices of one eviction would look like a fleet of which a part stays
		f.gathering = f.Now.Add(f.cfg.NoticeWait)
	}
	f.Reliable.lost = f.Reliable.lost || m.Tier == step.Reliable // another is bought while it lasts
	return f.work.Warned(&m.Machine)
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
