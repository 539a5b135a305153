package fleet

import (
	"cmp"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// New returns a fleet without machines. Call Serve before its first step.
func New(cfg *Config, s *step.Step, demand *Demand) *Fleet {
	f := &Fleet{Step: s, cfg: cfg, demand: demand, early: map[step.ID]*early{}}
	f.Spending.fleet, f.gathering.fleet = f, f
	f.markets = &markets{Step: s, cfg: cfg, prices: map[market.Pool]*market.History{}, deferred: map[market.Pool]time.Time{},
		lifetimes: map[market.Pool]*market.Lifetimes{}}
	for _, p := range cfg.Pools {
		f.markets.prices[p.Pool] = p.History
	}
	f.Roster = &roster{cfg: cfg, ByID: make(map[step.ID]*Machine, step.UsualFleet)}
	f.buys = &purchases{Step: s, cfg: cfg, open: map[string]*launch{}, refused: map[string]*launch{}}
	f.Accounts = &accounts{Step: s, cfg: cfg, markets: f.markets, roster: f.Roster}
	f.View = &view{Step: s, cfg: cfg, demand: demand, markets: f.markets, roster: f.Roster, buys: f.buys, accounts: f.Accounts}
	return f
}

// Serve connects the fleet to the work that it serves, and adds the machines that earlier controllers left.
func (f *Fleet) Serve(work Work) {
	f.work, f.View.work = work, work
	f.tiers, _ = work.(Tiers)
	if f.cfg.Past != nil {
		f.restore(f.cfg.Past)
	}
}

// Begin is the first step.
func (f *Fleet) Begin() {
	f.WantPlan = true
	for _, m := range f.Roster.List { // machines of earlier controllers
		m.SawEnd = f.Awake.Now()
		if m.unwritten {
			f.Record(func() journal.Entry { return m.line(journal.Leave) })
		}
		if m.Lost && !m.Ended {
			f.Terminate(&m.Machine, cmp.Or(f.cfg.Forgotten, "it was given up before the controller was restarted"))
		}
	}
	for _, p := range f.cfg.Pools {
		for _, point := range f.cfg.Past.Unwritten(p.Pool, p.History) {
			f.markets.recordPrice(p.Pool, point)
		}
	}
}

// Crashes returns the crashes since work was last committed.
func (f *Fleet) Crashes() *Crashes { return &f.crashes }

// Take handles an event that concerns machines or markets. It reports whether it may require more than planning.
func (f *Fleet) Take(e step.Event) (due bool) {
	switch e := e.(type) {
	case PriceChanged:
		if f.markets.takePrice(e) {
			f.WantPlan = f.WantPlan || !f.settled
			f.gathering.priced(e)
			return f.Spending.priced(e)
		}
	case CapacityChanged:
		f.WantPlan = f.markets.takeCapacity(e) || f.WantPlan
	case Listed:
		return reconciler{f}.takeListed(e)
	case Warned:
		return f.takeWarned(e)
	case PricesKnown:
		f.markets.known = e.At
		return true
	case ProviderChanged:
		f.Record(func() journal.Entry {
			return journal.Entry{Kind: journal.Provider, To: e.To, Why: step.Printable(e.Why)}
		})
	case Launched:
		f.Spending.next = time.Time{}
		f.takeLaunched(e)
		return true
	case LaunchFailed:
		f.takeLaunchFailed(e)
		return true
	case InstanceEnded:
		f.takeEnded(e.Instance)
		return true
	}
	return false
}

// Charge writes the bills of machines that have ended.
func (f *Fleet) Charge() {
	if f.Accounts.charge() && !f.work.Need().TakingOver { // otherwise the takeover queries them
		f.Roster.archive(f.work.Idle)
		f.work.Archive()
	}
}

// End terminates all machines.
func (f *Fleet) End(why string) {
	for _, m := range f.Roster.ordered(func(m *Machine) bool { return !m.Ended }) {
		f.Terminate(&m.Machine, why)
	}
}

// Over reports whether no machine is left and no launch unanswered, and every bill is written or no longer awaited.
// Unknown bills are recorded as such.
func (f *Fleet) Over() bool {
	if (reconciler{f}).mayTurnUp() || f.buys.awaited() {
		return false
	}
	for _, m := range f.Roster.List {
		if !m.Ended || !m.Charged && !f.Awake.Over(m.SawEnd, ChargeWait(f.cfg.Settings)) {
			return false
		}
	}
	for _, m := range f.Roster.List {
		if !m.Charged {
			f.Record(func() journal.Entry {
				return UnknownCharge(string(m.ID), m.Pool, m.Launched, m.EndedAt, ErrNoPrices)
			})
		}
	}
	return true
}

// Ready handles a machine's answer to its welcome.
func (f *Fleet) Ready(of *step.Machine) {
	m := f.Roster.ByID[of.ID]
	if m.Tier == step.Reliable {
		f.Reliable.tries = 0
	}
	f.Record(func() journal.Entry { return m.line(journal.Ready) })
}

// Left records that a remaining machine no longer takes part.
func (f *Fleet) Left(of *step.Machine) {
	f.Record(func() journal.Entry { return f.Roster.ByID[of.ID].line(journal.Leave) })
}

// Reorder must be called after machines got places in the order of joining.
func (f *Fleet) Reorder() { f.Roster.Reorder() }

// Joined records that a machine takes part. The line describes how it joined.
func (f *Fleet) Joined(of *step.Machine, line func() journal.Entry) {
	m := f.Roster.ByID[of.ID]
	f.Record(func() journal.Entry {
		e := line()
		e.Kind, e.Instance, e.Pool, e.Tier = journal.Join, string(m.ID), m.Pool.String(), string(m.Tier)
		return e
	})
	f.closeLaunch(m.Token)
}

// Lost records that nothing more is expected of a machine. Ready: it had been ready.
func (f *Fleet) Lost(of *step.Machine, ready bool) {
	m, reliable := f.Roster.ByID[of.ID], of.Tier == step.Reliable
	f.WantPlan = true
	f.Reliable.lost = f.Reliable.lost || reliable
	if m.Joined == 0 {
		if reliable && !ready && m.Token != f.Reliable.token {
			f.Reliable.token = m.Token
			f.Reliable.tries++
		}
		f.closeLaunch(m.Token)
		return
	}
	f.Record(func() journal.Entry { return m.line(journal.Leave) })
	if !f.Ending && f.Switching != nil {
		f.Switching.settle(f)
	}
}

// Warned records that a machine has learned of its own end.
func (f *Fleet) Warned(id step.ID, deadline time.Time, rebalance bool) (due bool) {
	return f.takeWarned(Warned{ID: id, Deadline: deadline, Rebalance: rebalance})
}

// TakenOver records that all machines of earlier controllers are accounted for.
func (f *Fleet) TakenOver() {
	f.WantPlan, f.Reliable.lost = true, true // Secure checks whether it was
	if f.Switching != nil {
		f.closeLaunch(f.Switching.token)
	}
}

// StartedOver records that no reliable machine serves any more.
func (f *Fleet) StartedOver() { f.Reliable = reliableTier{lost: true} }

// Demanded records that the demand has changed.
func (f *Fleet) Demanded() { f.WantPlan, f.Reliable.lost = true, true } // Secure looks for missing machines

// Replan has the policy plan again.
func (f *Fleet) Replan() { f.WantPlan = true }

// Progressed records that work was done that will not be lost.
func (f *Fleet) Progressed() {
	if f.crashes.Progressed() {
		f.WantPlan = true
	}
}

// NextDue calls by with each time at which something must be done even without an event.
func (f *Fleet) NextDue(by func(time.Time)) {
	by(f.Reliable.After)
	by(f.gathering.until)
	by(f.Spending.next)
	var unbilled time.Time // start of the earliest wait that has not timed out
	wait := ChargeWait(f.cfg.Settings)
	for _, m := range f.Roster.going {
		switch {
		case m.Ended && !m.Charged:
			if m.EndedAt.After(f.Now) {
				by(m.EndedAt)
			}
			if (unbilled.IsZero() || m.SawEnd.Before(unbilled)) && !f.Awake.Over(m.SawEnd, wait) {
				unbilled = m.SawEnd
			}
		case m.Draining && !m.Leaving && !m.Lost && !m.Ended:
			by(f.PaidUntil(m).Add(-f.cfg.DrainMargin))
		}
	}
	if !unbilled.IsZero() {
		by(f.Awake.Due(unbilled, wait))
	}
}
