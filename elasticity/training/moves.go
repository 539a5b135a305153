package training

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// advanceBackups assigns partitions that have no backup, or a departing one, to the machines named by the layout.
func (t *Training) advanceBackups() {
	if !t.Layout.Bare() && !t.Layout.straying() || t.wantsHalt() || t.Recovery != nil || t.Cuts.Cut != nil || t.Halt != nil || t.Ending || len(t.Layout.Moves) > 0 {
		return
	}
	given := map[ps.ServerID][]ps.Partition{}
	for p, backup := range t.Layout.Route.Backup {
		m := t.Nodes.ByID[t.Layout.Target.Route.Backup[p]]
		if (backup == "" || t.Layout.stray(ps.Partition(p))) && m != nil && m.Member() && m.alive() && !m.Warned {
			given[m.ID] = append(given[m.ID], ps.Partition(p))
			if old := t.Nodes.ByID[backup]; old != nil {
				old.Keeps = true
			}
			t.Layout.Route.Backup[p] = m.ID
		}
	}
	if len(given) == 0 {
		return
	}
	for _, m := range t.Nodes.Members() {
		if len(given[m.ID]) > 0 {
			t.Nodes.send(m.ID, tiers.BackUp{Partitions: given[m.ID], Empty: true})
		}
	}
	t.Layout.Route.Version++
	t.Layout.broadcast()
	t.Cuts.bare = true
	t.Cuts.Due = t.Now // as soon as possible: until then only the owners hold the state
}

// advanceMoves starts the moves that lead to the target.
//
// Invariant: moves and cuts exclude each other, so a partition changes in one way at a time (decision 3). The old owner serves until the
// new one has everything (except in drills with FaultIn), so a failed move leaves everything as it was.
//
//  1. Every partition whose owner is not the target's gets a move, grouped by pairs of machines.
//  2. Machines with a notice hand over as many as fit into the time left; the last committed cut has the rest.
//  3. When all moves have ended, the route is announced and a cut may follow.
func (t *Training) advanceMoves() {
	if t.Recovery != nil || t.Cuts.Cut != nil || t.Halt != nil || t.Settle != nil || len(t.Layout.Moves) > 0 ||
		!t.Layout.Standing() || t.Ending || t.Now.Before(t.Layout.MoveRetry) || t.Layout.WantsFlush() || t.wantsHalt() {
		return
	}
	if slices.Equal(t.Layout.Route.Owner, t.Layout.Target.Route.Owner) {
		return
	}
	turning := t.Layout.rotating
	hasty := turning != nil && turning.hasty || slices.ContainsFunc(t.Nodes.Members(), func(m *Node) bool { return m.Warned })
	type hop struct{ from, to ps.ServerID }
	hops := map[hop]int{}
	room := map[*Node]int{} // partitions that a machine with a warning can still hand over in time
	for p, owner := range t.Layout.Route.Owner {
		to := t.Layout.Target.Route.Owner[p]
		if to == owner || to == "" {
			continue
		}
		from, dest := t.Nodes.ByID[owner], t.Nodes.ByID[to]
		if from == nil || !from.alive() || dest == nil || !dest.alive() || dest.Warned {
			continue
		}
		if _, known := room[from]; !known {
			room[from] = t.Cuts.DrainsInTime(from, len(partitionsOf(t.Layout.Route.Owner, owner)))
		}
		if room[from]--; room[from] < 0 {
			continue // too late: the last committed cut is used
		}
		t.Layout.Moves[ps.Partition(p)] = to
		hops[hop{owner, to}]++
		t.Nodes.send(owner, tiers.MoveOut{Partition: ps.Partition(p), To: to, Address: dest.Address, Window: !hasty, FaultIn: turning != nil && turning.faultIn})
	}
	if len(hops) > 0 {
		t.Layout.rotating, t.Layout.hurried = nil, hasty
	}
	why := fmt.Sprintf("stage %d layout", t.Layout.Target.Stage)
	if slices.Equal(t.Layout.Target.Route.Owner, t.Layout.preferred.Owners) {
		why = t.Layout.preferred.Why
	}
	order := slices.SortedFunc(maps.Keys(hops), func(a, b hop) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	for _, h := range order {
		t.Record(func() journal.Entry {
			return journal.Entry{Kind: journal.Move, Count: hops[h], From: string(h.from), To: string(h.to), Clock: int64(t.Clocks.Done), Why: why}
		})
	}
}

// hurryMoves stops moves from waiting for a window if something else waits for their end: a halt, a worker's settlement, or a machine with
// a notice.
func (la *layout) hurryMoves(awaited bool) {
	if len(la.Moves) == 0 || la.hurried {
		return
	}
	owners := map[ps.ServerID]bool{}
	for p := range la.Moves {
		owners[la.Route.Owner[p]] = true
	}
	members := la.nodes.Members()
	if !awaited && !slices.ContainsFunc(members, func(m *Node) bool { return m.Warned }) {
		return
	}
	la.hurried = true
	for _, m := range members {
		if owners[m.ID] && m.alive() {
			la.nodes.send(m.ID, tiers.HurryMoves{})
		}
	}
}

// rotation is a request that every partition change its owner, for drills; nil = none.
type rotation struct{ hasty, faultIn bool }

// Rotate moves every partition to another server, each between a clock's reads and its contributions or, if hasty, as soon as possible;
// with faultIn the new server serves before its rows have arrived. It returns why that is impossible.
func (la *layout) Rotate(hasty, faultIn bool) error {
	if _, ok := tiers.Rotate(la.Target, la.nodes.tierMembers()); !ok {
		return errors.New("no other machine could serve: it takes two reliable machines in stage 1, otherwise two transient ones")
	}
	la.rotating, la.Due = &rotation{hasty, faultIn}, true
	return nil
}

// Prefer sets the owners of partitions preferred by the placer of jobs on shared machines. The moves wait for a window, unless something
// hurries them.
func (la *layout) Prefer(p tiers.Preference) {
	if !slices.Equal(la.preferred.Owners, p.Owners) {
		la.preferred, la.arranged, la.Due = p, arrangement{}, true
	}
}

// moved is the total cost of moves.
type moved struct {
	partitions int
	sum        tiers.Moved
	longest    float64 // the longest wait for one
}

func (m *moved) add(took tiers.Moved) {
	m.partitions++
	m.sum.Bytes += took.Bytes
	m.sum.Seconds += took.Seconds
	m.sum.Waited += took.Waited
	m.longest = max(m.longest, took.Waited)
}

// recordMoved records the cost of finished moves.
func (la *layout) recordMoved() {
	m := la.moved
	if la.moved = (moved{}); m.partitions == 0 {
		return
	}
	la.Record(func() journal.Entry {
		details, _ := journal.Pack(journal.MovedDetails{Waited: m.sum.Waited, Longest: m.longest}) // consists of finite numbers
		return journal.Entry{Kind: journal.Moved, Count: m.partitions, Bytes: m.sum.Bytes, Seconds: m.sum.Seconds, Details: details}
	})
}

// advanceSplits hands splits over: load at the taker, take back from the giver at a clock's end, assign.
func (t *Training) advanceSplits() {
	idle := &t.Layout.idle
	// Before a halt, standbys still hand theirs to workers: they complete no clock that it waits for.
	stay := t.Halt != nil || t.wantsHalt() && t.cfg.Job.Standby == nil
	if idle.free == 0 && (idle.held == 0 || stay) && !idle.lacking || t.Recovery != nil || t.Ending || t.endsAtCut || !t.Layout.Standing() {
		return
	}
	idle.lacking = false
	var told []*Node
	give := func(m *Node) *errand {
		if !m.errand.given {
			m.errand.given, told = true, append(told, m)
		}
		return &m.errand
	}
	for i := range t.Layout.Splits {
		s, split := &t.Layout.Splits[i], ps.Split(i)
		taker := t.Layout.takers[i]
		if taker == nil || s.by == taker {
			continue
		}
		if !taker.Member() || !taker.alive() {
			idle.lacking = true
			continue
		}
		switch {
		case !taker.Loaded.Has(split):
			if idle.lacking = true; !taker.Loading {
				e := give(taker)
				e.load = append(withRoom(e.load), split)
			}
		case s.Holder == "":
			t.Layout.hand(split, taker.ID)
			e := give(taker)
			e.assign = append(withRoom(e.assign), tiers.SplitAt{Split: split, Clock: s.next})
		case !s.releasing && !stay && s.by.alive() && (!t.wantsHalt() || t.cfg.standsBy(s.by)):
			t.Layout.askBack(split)
			e := give(s.by)
			e.release = append(withRoom(e.release), split)
		}
	}
	slices.SortFunc(told, inOrder)
	for _, m := range told {
		e := m.errand
		if m.errand = (errand{}); !m.Member() {
			continue
		}
		if len(e.assign) > 0 {
			t.Nodes.send(m.ID, tiers.Assign{Splits: e.assign})
		}
		if len(e.load) > 0 {
			m.Loading = true
			t.Nodes.send(m.ID, tiers.Load{Splits: e.load})
		}
		if len(e.release) > 0 {
			t.Nodes.send(m.ID, tiers.Release{Splits: e.release, Drop: t.Layout.outruns(m)})
		}
	}
}

// withRoom gives an empty list room for as many splits as a machine usually gets at once.
func withRoom[T any](list []T) []T {
	if list == nil {
		return make([]T, 0, 8)
	}
	return list
}

// takeReleased assigns the splits that a machine has given back. It reports whether more may be due.
func (t *Training) takeReleased(m *Node, a tiers.Answer) (due bool) {
	r, ok := a.Result.(tiers.Released)
	if a.Code != tiers.CodeOK || !ok {
		t.machines.GiveUp(m.Machine, "it did not hand over its splits: "+a.Error)
		return true
	}
	for _, s := range r.Splits {
		if st := &t.Layout.Splits[s.Split]; st.by == m && st.releasing {
			t.Layout.hand(s.Split, "")
			st.next = s.Clock
		}
	}
	if last := t.Layout.between <= len(r.Splits); last || m.Leaving || !t.atRest() || !t.Layout.Standing() || t.Recovery != nil || t.Ending {
		return true // another partition may wait for it
	}
	return !t.Layout.passOn(r.Splits)
}

// spreadRoute announces changed owners when their moves end. It precedes every command to owners: an owner that has not heard from the
// previous server that a partition is its own learns it from the route. A route of a new generation sent before all have returned would
// undo the fence.
func (t *Training) spreadRoute() {
	if t.Layout.routeNews && len(t.Layout.Moves) == 0 && t.Recovery == nil {
		t.Layout.broadcast()
	}
}
