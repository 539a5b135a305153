package fleet

import (
	"cmp"
	"time"

	"github.com/tierml/tierml/elasticity/step"
)

// Trim releases machines beyond the requested number: the youngest first, which serve nothing and whose start-up is the smallest loss. They
// hand everything over and are terminated.
func (f *Fleet) Trim() {
	f.trimReliable()
	need := f.work.Need()
	if !f.demand.Asked && !f.demand.Awaited && f.demand.Paused == "" || f.Switching != nil || !need.Standing || f.Closing() || need.Done {
		return
	}
	want := f.demand.want()
	surplus := -max(want.VCPU, want.Machines)
	for _, m := range f.Roster.List {
		if m.Tier == step.Transient && m.Staying() {
			surplus += f.Roster.Capacity(m)
		}
	}
	for surplus > 0 {
		m := f.Roster.dispensable(surplus)
		if m == nil {
			return
		}
		surplus -= f.Roster.Capacity(m)
		m.Leaving, m.Why = true, cmp.Or(f.demand.Paused, "fewer workers were asked for")
		f.Roster.Goes(m)
		f.work.Rearrange()
		f.WantPlan = true
	}
}

// Drain ends the work of released machines shortly before they would cost another hour.
func (f *Fleet) Drain() {
	for _, m := range f.Roster.going {
		if m.Draining && !m.Leaving && !m.Lost && !m.Ended && !f.Now.Before(f.PaidUntil(m).Add(-f.cfg.DrainMargin)) {
			m.Leaving = true
			f.work.Rearrange()
		}
	}
}

// PaidUntil returns the end of the hour that is already paid; without whole-hour billing that is now.
func (f *Fleet) PaidUntil(m *Machine) time.Time {
	if !f.cfg.WholeHours {
		return f.Now
	}
	hours := f.Now.Sub(m.Launched)/time.Hour + 1
	return m.Launched.Add(hours * time.Hour)
}

// Retire terminates machines that have handed everything over.
func (f *Fleet) Retire() {
	for _, m := range f.Roster.going {
		if m.Leaving && !m.Lost && !m.Ended && !m.Terminating && !f.work.Holds(&m.Machine) {
			f.Terminate(&m.Machine, m.Why)
		}
	}
}
