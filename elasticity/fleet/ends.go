package fleet

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// takeEnded records the end of a machine.
func (f *Fleet) takeEnded(i provisioner.Instance) {
	m := f.Roster.ByID[step.ID(i.ID)]
	if m == nil {
		f.unknownEnded(i)
		return
	}
	if m.Ended {
		return
	}
	f.Record(func() journal.Entry {
		entry := m.line(journal.Failed)
		entry.Ended, entry.EndedBy, entry.Why = &i.Ended, string(i.EndedBy), i.Reason
		switch {
		case i.EndedBy == market.ByProvider && m.Warned:
			entry.Kind = journal.Evicted
		case (m.Terminating || m.recalled) && i.EndedBy == market.ByUser: // by this controller, or a previous one
			entry.Kind, entry.Why = journal.Terminated, cmp.Or(m.Why, i.Reason)
		}
		return entry
	})
	if i.EndedBy == market.ByProvider {
		f.Totals.Evictions++
	}
	switch {
	case i.EndedBy == market.ByProvider:
		f.crashes.Exclude(m.ID)
	case m.endedByItself(i.Ended):
		f.crashes.Add(Crash{ID: m.ID, Entered: m.Entered, At: f.Now, Why: "it ended by itself: " + cmp.Or(m.Why, i.Reason)})
	}
	m.Unlisted = i.Presumed
	m.EndedAt, m.EndedBy, m.SawEnd = i.Ended, i.EndedBy, f.Awake.Now()
	f.markets.outlived(market.Usage{Pool: m.Pool, Start: m.Launched, End: m.EndedAt, EndedBy: m.EndedBy})
	if !m.Lost {
		f.work.Lose(&m.Machine)
	}
	m.Ended = true
	f.Roster.Goes(m)
	f.closeLaunch(m.Token)
	f.WantPlan = true
}

// GiveUp declares a machine dead: whatever it still does is fenced, and payment ends.
func (f *Fleet) GiveUp(of *step.Machine, why string) {
	m := f.Roster.ByID[of.ID]
	if m.Lost || m.Ended {
		return
	}
	if !m.Terminating && !m.Warned {
		f.Record(func() journal.Entry { return m.bad(why) })
	}
	f.work.Lose(of)
	f.Terminate(of, why)
}

// Crashed handles an agent that ended by itself or could not execute a command. The machine is given up at once.
func (f *Fleet) Crashed(of *step.Machine, why, log string) {
	m, why := f.Roster.ByID[of.ID], step.Printable(why)
	if m.Lost || m.Ended || m.Terminating || m.Warned { // about to end anyway
		f.GiveUp(of, why)
		return
	}
	crash := Crash{ID: m.ID, Entered: m.Entered, At: f.Now, Why: why, Log: step.Printable(log), Told: true}
	f.crashes.Add(crash)
	f.Record(func() journal.Entry { return crash.entry(m.Pool.String()) })
	f.work.Lose(of)
	f.Terminate(of, why)
}

const noLaunch = "no launch accounts for this machine"

// enter adds a bought machine, with earlier reports about it.
func (f *Fleet) enter(l *launch, i provisioner.Instance) *Machine {
	id := step.ID(i.ID)
	if m := f.Roster.ByID[id]; m != nil || f.Roster.settled(i.ID) {
		return m
	}
	f.bought++ // also in the journal
	kind := f.markets.typeOf(i.Pool)
	m := &Machine{
		Machine: step.Machine{ID: id, Tier: l.tierIn(i.Pool), VCPU: kind.VCPU, Number: f.bought, Entered: f.Now},
		Pool:    i.Pool, bid: l.bidFor(i.Pool), Token: l.token, Launched: i.Launched,
		recalled: l.inherited && i.State == provisioner.Terminated, // it may have waited in vain for its controller
	}
	f.Roster.seat(m)
	l.machines = append(l.machines, m)
	f.work.Enter(&m.Machine, f.markets.kind(i.Pool))
	f.Totals.Machines++
	f.Record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Launch, Why: l.why, Token: l.token, Instance: string(id), Tier: string(m.Tier),
			Pool: i.Pool.String(), Bid: BidText(i.Pool, m.bid), Launched: &i.Launched,
		}
	})
	heard := f.early[id]
	delete(f.early, id)
	switch {
	case heard != nil && heard.terminated:
		m.Terminating, m.Why = true, noLaunch
	case f.Ending:
		f.Terminate(&m.Machine, "the run is over")
	}
	if i.State == provisioner.Terminated {
		f.takeEnded(i)
	}
	if heard != nil && heard.warned != nil {
		f.takeWarned(*heard.warned)
	}
	if heard != nil && heard.ended != nil {
		f.takeEnded(*heard.ended)
	}
	if heard != nil && heard.called {
		f.work.Entered(&m.Machine)
	}
	return m
}

// adopt accounts for a machine of a launch that was reported as failed. It is on the bill but not in the plan, so it is ended.
func (f *Fleet) adopt(l *launch, i provisioner.Instance) {
	if m := f.enter(l, i); m != nil && m.Joined == 0 {
		f.Terminate(&m.Machine, "its launch was reported as failed, so it was not expected")
	}
}

// Awaiting reports whether a launch is unanswered, so that unknown machines may exist.
func (f *Fleet) Awaiting() bool {
	if !f.Surveyed() {
		return true
	}
	return f.buys.awaited()
}

// earlyReports returns where reports of an unknown machine are kept.
func (f *Fleet) earlyReports(id step.ID) *early {
	if f.early[id] == nil {
		f.early[id] = &early{}
	}
	return f.early[id]
}

// unknownEnded records the end of an unknown machine. It may belong to a launch that is still unanswered.
func (f *Fleet) unknownEnded(i provisioner.Instance) {
	if l := f.buys.refused[i.Token]; l != nil && !f.Roster.settled(i.ID) {
		f.enter(l, i)
		f.takeEnded(i)
	} else if f.Awaiting() {
		f.earlyReports(step.ID(i.ID)).ended = &i
	}
}

// Called handles a call of an unknown machine. While a launch is unanswered it may belong to it; otherwise it was bought by a launch that
// was reported as failed, and costs money for nothing.
func (f *Fleet) Called(id step.ID) {
	f.earlyReports(id).called = true
	f.checkStrangers()
}

// checkStrangers terminates machines that belong to no launch.
func (f *Fleet) checkStrangers() {
	if f.Awaiting() {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(f.early)) {
		switch h := f.early[id]; {
		case !h.called:
			delete(f.early, id)
		case !h.terminated:
			h.terminated = true
			f.Do(Terminate{IDs: []provisioner.InstanceID{provisioner.InstanceID(id)},
				Why: noLaunch})
		}
	}
}
