package hosts

import (
	"slices"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/provisioner"
)

// Implementation of fleet.Work and fleet.Tiers.

// Need returns what the slots need from the hosts now: the policy must be consulted.
func (b *Brain) Need() step.Need {
	return step.Need{Standing: !b.takingOver, Begun: true, TakingOver: b.takingOver}
}

// Progress is empty: slots are not work.
func (b *Brain) Progress() step.Progress { return step.Progress{} }

// Enter adds a bought host.
func (b *Brain) Enter(of *step.Machine, _ step.Kind) {
	m := &machine{Machine: of, since: b.step.Awake.Now(), called: of.Joined > 0}
	b.machines[of.ID] = m
	b.order = append(b.order, m)
	b.joins = max(b.joins, of.Joined)
	if !of.Lost && !of.Ended {
		m.host = b.Book.AddHost(of.ID, of.Tier, b.sizeIn(b.fleet.Roster.ByID[of.ID].Pool))
		m.host.Called = m.called
	}
}

// Entered changes nothing: an agent calls repeatedly.
func (b *Brain) Entered(*step.Machine) {}

// Warned does nothing: know passes it on.
func (b *Brain) Warned(*step.Machine) bool { return true }

// Lose ends the slots of a lost host.
func (b *Brain) Lose(of *step.Machine) {
	m := b.machines[of.ID]
	m.Lost = true
	at, why, seen := b.step.Now, "it fell silent", false
	if b.ended.ID == provisioner.InstanceID(of.ID) {
		at, why, seen = b.ended.Ended, b.ended.Reason, !b.ended.Presumed
	}
	b.Book.EndHost(at, of.ID, why, seen)
	m.host = nil
	b.fleet.Lost(of, m.called)
}

// Rearrange changes nothing: slots stay where they are.
func (b *Brain) Rearrange() {}

// Holds reports whether a departing host has slots whose jobs still have time.
func (b *Brain) Holds(of *step.Machine) bool { return b.serves(b.machines[of.ID]) }

// Idle reports whether a host has no more work to deliver: its slots end with it.
func (b *Brain) Idle(*step.Machine) bool { return true }

// Connected reports whether a host's agent has been heard recently.
func (b *Brain) Connected(of *step.Machine) bool {
	m := b.machines[of.ID]
	return m != nil && m.called && !m.Lost
}

// Archive removes archived hosts.
func (b *Brain) Archive() {
	b.order = slices.DeleteFunc(b.order, func(m *machine) bool { return m.Archived })
}

// Bare, Short and Rejoin are for training: a reliable host has no state that needs a copy.
func (b *Brain) Bare() bool                     { return false }
func (b *Brain) Short(int, string, int64) error { return nil }
func (b *Brain) Rejoin(string, int64)           {}
func (b *Brain) EndAtCut(string)                {}
