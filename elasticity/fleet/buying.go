package fleet

import (
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// settle ends a switch-over: once machines of the new pool take part, those of the old one drain.
func (s *switchover) settle(f *Fleet) {
	if f.buys.open[s.token] != nil {
		return
	}
	f.Switching = nil
	arrived := f.Roster.ordered(func(m *Machine) bool { return m.Member() && m.Token == s.token && !m.Warned })
	if len(arrived) == 0 {
		return
	}
	// If the new pool supplied fewer machines than requested, enough old ones stay to cover the job's demand.
	lacking := max(f.demand.want().VCPU, f.demand.want().Machines)
	for _, m := range arrived {
		lacking -= f.Roster.Capacity(m)
	}
	for _, m := range f.Roster.ordered(func(m *Machine) bool { return m.Pool == s.from && m.Tier == step.Transient && m.Staying() }) {
		if lacking > 0 {
			lacking -= f.Roster.Capacity(m)
			continue
		}
		why := "a pool with a longer MTTF took its place, and its paid time is over"
		if m.Pool.Class == market.OnDemand {
			why = "spot machines took its place, and its paid time is over"
		}
		f.Release(&m.Machine, why)
	}
	f.work.Rearrange()
}

// Release ends a machine at the end of its paid time.
func (f *Fleet) Release(of *step.Machine, why string) {
	m := f.Roster.ByID[of.ID]
	if !m.Draining || m.Why != why {
		f.Record(func() journal.Entry {
			entry := m.line(journal.Release)
			entry.Why = why
			return entry
		})
	}
	m.Draining, m.Why = true, why
	f.Roster.Goes(m)
	f.work.Rearrange()
}

// PlanDue reports whether the policy should decide now.
func (f *Fleet) PlanDue() bool { return f.WantPlan || !f.Now.Before(f.NextPlan) }

// LatestWake returns when the policy may be consulted again even if nothing happens.
func (f *Fleet) LatestWake() time.Time {
	if f.settled {
		return f.NextPlan
	}
	return f.Now.Add(f.cfg.PlanEvery)
}

// Buy asks the policy what to hold and carries out its plan. Spot machines are bought once the reliable tier is ready: before that they
// would have nothing to do, and it is unproven that the job starts (decision 19).
func (f *Fleet) Buy() {
	if !f.PlanDue() || !f.MayBuy() {
		return
	}
	f.WantPlan, f.NextPlan = false, f.Now.Add(f.cfg.PlanEvery)
	plan := bidding.Ask(f.cfg.Policy, f.View.brief())
	f.SaveEvery, f.View.afforded = plan.SaveEvery, plan.Afforded
	if plan.Spent {
		f.Stop = BudgetUsedUp(f.cfg.Job.Budget)
		return
	}
	if again := plan.AskAgain; again.After(f.Now) && again.Before(f.NextPlan) {
		f.NextPlan = again
	}
	if f.Silent && plan.Settled.After(f.NextPlan) { // in a run that someone follows, each price is considered
		f.NextPlan = plan.Settled
	}
	f.settled = f.NextPlan.Equal(plan.Settled)
	if plan.Switch != nil && f.Switching != nil {
		return // one at a time: the abandoned pool must drain
	}
	f.buys.considered = plan.Considered
	defer func() { f.buys.considered = nil }()
	if f.cfg.Whole {
		f.Roster.letGo(f.buys.replace(plan))
		f.View.Stale()
		return
	}
	for _, a := range plan.Acquire {
		s := plan.Switch
		if s == nil || s.To != a.Pool {
			f.buys.launch(step.Transient, a)
			continue
		}
		f.Totals.Switches++
		f.Record(func() journal.Entry {
			return journal.Entry{
				Kind: journal.Switch, Why: s.Why, From: s.From.String(), To: s.To.String(),
				OfSwitch: journal.OfSwitch{FromMTTF: s.FromMTTF.Seconds(), ToMTTF: s.ToMTTF.Seconds()},
			}
		})
		f.Switching = &switchover{from: s.From, to: s.To, token: f.buys.launch(step.Transient, a)}
	}
	if plan.Switch == nil {
		for _, r := range plan.Release {
			some := f.Roster.ordered(func(m *Machine) bool {
				return r.Of(m.Pool, m.Launched) && m.Tier == step.Transient && !m.Lost && !m.Ended && (r.Count == 0 || m.Staying())
			})
			if r.Count > 0 && r.Count < len(some) {
				some = some[len(some)-r.Count:] // those that joined first hold most
			}
			for _, m := range some {
				f.Release(&m.Machine, r.Why)
			}
		}
	}
}

// MayBuy reports whether the policy may decide at all in the present state.
func (f *Fleet) MayBuy() bool {
	need := f.work.Need()
	held := f.crashes.Hold() && !need.Idle
	if f.cfg.Whole {
		held = f.buys.awaited()
	}
	return !need.Outage && !need.Gathering && !f.Now.Before(f.gathering.until) && need.Standing && !f.Closing() && !need.Done && !held
}

// closeLaunch forgets a launch when none of its machines is still starting.
func (f *Fleet) closeLaunch(token string) {
	l := f.buys.open[token]
	if l == nil || !l.answered {
		return
	}
	for n := len(l.machines); n > 0; n = len(l.machines) {
		if m := l.machines[n-1]; m.Joined == 0 && !m.Lost && !m.Ended {
			return
		}
		l.machines = l.machines[:n-1] // a joined machine stays so
	}
	delete(f.buys.open, token)
	if f.Switching != nil && f.Switching.token == token {
		f.Switching.settle(f)
	}
}
