package sim

import "github.com/tierml/tierml/ps"

// Replicas of one model differ from other training (apps/diloco): a machine with a replica computes that one alone.

// passing is the load of a clock in which a machine computes nothing: it ends almost at once.
const passing = 1e-9

// ease reduces the load of a clock to what the machine computes.
func (n *node) ease(clock ps.Clock) {
	switch passes := n.f.w.cfg.Job.Passes; {
	case n.standby, passes && n.did == clock: // it takes over unfinished work
		n.load = min(n.load, passing)
	case passes:
		n.load = min(n.load, 1)
	}
}

// warned handles a notice: it ends a replica's clock, and the work done counts.
func (n *node) warned() {
	if f := n.f; f.w.cfg.Job.Passes && n.alive {
		if f.bringUp(); n.busy {
			n.finish, f.soonest, f.unsettled = f.w.elapsed, min(f.soonest, f.w.elapsed), true
		}
	}
}
