package sim

import "github.com/tierml/tierml/ps"

// Replicas of one model differ from other training in this (apps/diloco): a machine with a replica computes that one alone.

// passing is the load of a clock of which a machine computes nothing: it ends nearly at once.
const passing = 1e-9

// ease leaves of the load of a clock what the machine computes.
func (n *node) ease(clock ps.Clock) {
	switch passes := n.f.w.cfg.Job.Passes; {
	case n.standby, passes && n.did == clock: // it takes over what another has not done
		n.load = min(n.load, passing)
	case passes:
		n.load = min(n.load, 1)
	}
}

// warned: a notice ends a replica's clock, of which what is done counts.
func (n *node) warned() {
	if f := n.f; f.w.cfg.Job.Passes && n.alive {
		if f.bringUp(); n.busy {
			n.finish, f.soonest, f.unsettled = f.w.elapsed, min(f.soonest, f.w.elapsed), true
		}
	}
}
