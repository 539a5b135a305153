package training

import (
	"slices"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

func (t *Training) advanceSettle() {
	if s := t.Settle; s != nil {
		if !s.ending && len(s.fencing) == 0 {
			s.settleStaged(t)
		}
		if s.ending && !waiting[tiers.SettleWorker](t.Nodes) {
			s.settleSplits(t)
		}
		return
	}
	if t.Recovery != nil || len(t.Layout.Moves) > 0 || t.Ending {
		return
	}
	m := t.Nodes.DeadHolder()
	if m == nil {
		return
	}
	s := &settling{dead: m.ID, fencing: map[ps.ServerID]bool{}}
	t.Settle = s
	// Backups too: the dead machine may only be silent, and would find one promoted when it wakes up. Servers that are added later get the
	// fence with the partitions that move to them.
	for _, server := range t.Nodes.reachable() {
		if slices.Contains(t.Layout.Route.Owner, server.ID) || slices.Contains(t.Layout.Route.Backup, server.ID) {
			s.fencing[server.ID] = true
			t.Nodes.send(server.ID, tiers.FenceWorker{Incarnation: m.Incarnation})
		}
	}
}

// unsettled reports whether a dead worker's progress is not known yet.
func (t *Training) unsettled() bool { return t.Settle != nil || t.Nodes.DeadHolder() != nil }

// takeStandings records what a fenced server has of the dead worker.
func (s *settling) takeStandings(t *Training, m *Node, a tiers.Answer) {
	if s == nil || !s.fencing[m.ID] {
		return
	}
	r, ok := a.Result.(tiers.Standings)
	if !ok {
		t.machines.GiveUp(m.Machine, "it did not fence a worker: "+a.Error)
		return
	}
	delete(s.fencing, m.ID)
	s.standings = append(s.standings, r.Partitions...)
}

// settleStaged decides about the dead worker's last contribution: if any partition has committed it, all have it staged and commit;
// otherwise all discard it.
func (s *settling) settleStaged(t *Training) {
	s.ending = true
	var committed, staged uint64
	for _, p := range s.standings {
		committed, staged = max(committed, p.Standing.Committed), max(staged, p.Standing.Staged)
	}
	if staged == 0 {
		return
	}
	for _, m := range t.Nodes.reachable() {
		if slices.Contains(t.Layout.Route.Owner, m.ID) {
			t.Nodes.send(m.ID, tiers.SettleWorker{Incarnation: t.Nodes.ByID[s.dead].Incarnation, Sequence: staged, Commit: committed >= staged})
		}
	}
}

// settleSplits reassigns the dead worker's splits, each at the clock after the last that any partition had committed: to a machine that
// passes over it or, if there is none, according to the layout.
func (s *settling) settleSplits(t *Training) {
	t.Settle = nil
	for i := range t.Layout.Splits {
		split := ps.Split(i)
		if t.Layout.Splits[i].Holder != s.dead {
			continue
		}
		done := t.Cuts.Committed
		for _, p := range s.standings {
			done = max(done, p.Marks[i])
		}
		t.Layout.hand(split, "")
		t.Layout.Splits[i].next = done + 1
		t.Clocks.reached(split, done)
		if m := t.Layout.passer(); m != nil {
			t.Layout.hand(split, m.ID)
			t.Nodes.send(m.ID, tiers.Assign{Splits: []tiers.SplitAt{{Split: split, Clock: done + 1}}})
		}
	}
	t.Cuts.checkClock()
	t.layOut()
}

// passer returns the machine with the fewest splits among those that work and can pass over one more; nil = none. A machine without a split
// would compute from the beginning a clock that the others are in the middle of: it gets one later, from a machine that has passed over it.
func (la *layout) passer() (to *Node) {
	if !la.cfg.Job.Short {
		return nil
	}
	for _, m := range la.nodes.Members() {
		if m.Tier == tiers.Transient && m.alive() && !m.noWork() && m.Splits > 0 && (to == nil || m.Splits < to.Splits) {
			to = m
		}
	}
	return to
}
