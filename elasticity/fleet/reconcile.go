package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// The fleet's state is compared with the provider's whenever the provider lists all machines of the run, in both directions: an unknown
// machine is adopted or ended, and a known machine that is no longer listed has ended. So no machine is forgotten, even if answers to
// launches were lost, and nothing waits for a machine that the provider has forgotten. Ended machines stay ended, whatever is listed later.

// SettleTime is how long, in wall-clock time, a provider may fail to list an existing machine, and a request may still be carried out after
// it was sent.
const SettleTime = time.Minute

const listedAgain = "it had ended, and the provider lists it again"

const NotListed = "the provider no longer knows it"

// reconciler compares a fleet with the provider's list.
type reconciler struct{ *Fleet }

// takeListed compares the fleet's state with the provider's list.
func (f reconciler) takeListed(e Listed) (due bool) {
	acts := f.Acts
	f.listed = e.Asked
	if !f.Surveyed() {
		f.surveyed = true
		f.takeStockOf(e)
		return true
	}
	there := map[step.ID]bool{}
	for _, i := range e.Instances {
		there[step.ID(i.ID)] = true
		f.compare(i)
	}
	for _, m := range f.Roster.ordered(func(m *Machine) bool { return !m.Ended }) {
		f.miss(m, there[m.ID], e.Asked)
	}
	return f.Acts != acts || f.Ending
}

// compare checks whether a listed machine is known.
func (f reconciler) compare(i provisioner.Instance) {
	id := step.ID(i.ID)
	m := f.Roster.ByID[id]
	if m != nil {
		m.cost = i.Cost
	}
	switch {
	case i.State == provisioner.Terminated || i.State == provisioner.Stopping: // ends are reported by InstanceEnded
	case m != nil && m.Ended, f.Roster.settled(i.ID):
		f.Do(Terminate{IDs: []provisioner.InstanceID{i.ID}, Why: listedAgain})
	case m != nil:
	case f.buys.open[i.Token] != nil && !f.buys.open[i.Token].answered: // the answer is pending
	case f.buys.open[i.Token] != nil:
		f.adopt(f.buys.open[i.Token], i)
	case f.buys.refused[i.Token] != nil:
		f.adopt(f.buys.refused[i.Token], i)
	case !f.earlyReports(id).terminated:
		f.early[id].terminated = true
		f.Do(Terminate{IDs: []provisioner.InstanceID{i.ID}, Why: noLaunch})
	}
}

// miss notes whether the provider lists a machine, and treats it as gone if it has been missing for long and is silent too.
func (f reconciler) miss(m *Machine, there bool, asked time.Time) {
	switch {
	case there || f.work.Connected(&m.Machine) || !m.Entered.Before(asked):
		m.missing = time.Time{}
	case m.missing.IsZero():
		m.missing = f.Now
	case f.Now.Sub(m.missing) >= f.cfg.Market(SettleTime):
		f.gone(m)
	}
}

// gone ends a machine that the provider does not list.
func (f reconciler) gone(m *Machine) {
	f.Terminate(&m.Machine, "the provider does not list it") // it may be listed later
	f.takeEnded(provisioner.Instance{ID: provisioner.InstanceID(m.ID), State: provisioner.Terminated,
		Ended: f.Now.Truncate(time.Second), EndedBy: market.ByUser, Reason: NotListed, Presumed: true})
}

// takeStockOf compares the journal with the provider's machines when a run is taken over.
func (f reconciler) takeStockOf(e Listed) {
	there := map[step.ID]bool{}
	for _, i := range e.Instances {
		there[step.ID(i.ID)] = true
		f.account(i)
	}
	for _, m := range f.Roster.ordered(func(m *Machine) bool { return !m.Ended && !there[m.ID] }) {
		if f.Now.Sub(m.Launched) < f.cfg.Market(SettleTime) { // it may not be listed yet: miss checks again
			m.missing = f.Now
			continue
		}
		f.gone(m)
	}
	for _, token := range slices.Sorted(maps.Keys(f.buys.open)) {
		l := f.buys.open[token]
		switch {
		case l.answered:
		case l.count > 0 && f.Now.Sub(l.at) < f.cfg.AskAgain:
			// Whether it was or will be carried out is unknown; but a repeated request returns the same machines.
			l.again = true
			f.buys.request(l)
		default:
			f.close(l)
		}
	}
	f.checkStrangers()
}

// close settles a launch of the previous controller with the machines that it has.
func (f reconciler) close(l *launch) {
	l.answered = true
	if l.count > 0 {
		f.refuse(l, l.count, "the controller was lost before the answer, and the provider has no such machine", nil)
		f.buys.unsure = f.Now
	}
	f.buys.refused[l.token] = l // one may still appear
	f.closeLaunch(l.token)
}

// account adds a machine that was bought but not recorded; one without a launch is terminated.
func (f reconciler) account(i provisioner.Instance) {
	id := step.ID(i.ID)
	if m := f.Roster.ByID[id]; m != nil {
		m.cost = i.Cost
		switch i.State {
		case provisioner.Terminated:
			f.takeEnded(i)
		case provisioner.Stopping:
			m.Terminating, m.Why = true, cmp.Or(m.Why, "the previous controller had ended it")
		default:
			if m.Ended {
				f.Do(Terminate{IDs: []provisioner.InstanceID{i.ID}, Why: listedAgain})
			}
		}
		return
	}
	l, refused := f.buys.open[i.Token], f.buys.refused[i.Token]
	switch {
	case f.Roster.settled(i.ID): // its end and bill are recorded
		if i.State == provisioner.Pending || i.State == provisioner.Running {
			f.Do(Terminate{IDs: []provisioner.InstanceID{i.ID}, Why: listedAgain})
		}
	case l != nil && l.count > 0:
		l.count--
		f.enter(l, i)
	case refused != nil:
		f.adopt(refused, i)
	case i.State != provisioner.Terminated:
		f.Do(Terminate{IDs: []provisioner.InstanceID{i.ID}, Why: noLaunch})
	}
}

// mayTurnUp reports whether unknown machines may appear: a launch was given up without certainty, and the provider has not been queried
// since the time by which it must know them.
func (f reconciler) mayTurnUp() bool {
	return !f.buys.unsure.IsZero() && !f.listed.IsZero() && f.listed.Before(f.buys.unsure.Add(f.cfg.Market(SettleTime)))
}
