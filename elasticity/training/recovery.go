package training

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// hasCut reports whether a backup has a cut, committed or delivered. The initial state, cut 0, is never delivered.
func hasCut(b tiers.BackupHolding, cut ps.Clock) bool {
	return b.Cut == cut || b.Delivered == cut && cut > 0
}

func holds(h tiers.Holdings, p ps.Partition, cut ps.Clock) bool {
	return slices.ContainsFunc(h.Backups, func(b tiers.BackupHolding) bool {
		return b.Partition == p && hasCut(b, cut)
	})
}

// EndAtCut ends the run at the committed cut, which the reliable machines hold: with neither transient machines nor the money for them, the
// current clock might take hours.
func (t *Training) EndAtCut(why string) {
	if t.endsAtCut = true; t.Layout.Standing() && (t.Halt == nil || t.Halt.phase != haltExporting) {
		t.startRecovery(why)
	}
}

func (t *Training) startRecovery(why string) {
	t.Recovery = &recovery{why: why}
	t.Cuts.Cut, t.Halt, t.Settle, t.Pause.AtRest = nil, nil, nil, false
	clear(t.Layout.Moves)
	t.Recovery.fence(t)
}

func (r *recovery) fence(t *Training) {
	r.again, r.returning = false, false
	r.fencing, r.Holdings = map[ps.ServerID]bool{}, map[ps.ServerID]tiers.Holdings{}
	t.Layout.Generation++
	// Answers to earlier commands no longer matter, except to loading, which does not depend on generations, the welcome of starting
	// machines, the stock of machines that may not join before, and saving a cut, which stays committed.
	t.Nodes.Commands.dropAll(func(s *sent) bool {
		switch s.Do.(type) {
		case tiers.Load, tiers.Welcome, tiers.SaveCut, tiers.TakeStock:
			return false
		}
		return true
	})
	for _, m := range t.Nodes.reachable() {
		r.fencing[m.ID] = true
		t.Nodes.send(m.ID, tiers.FenceGeneration{Generation: t.Layout.Generation})
	}
}

func (t *Training) takeHoldings(m *Node, do tiers.FenceGeneration, a tiers.Answer) {
	r := t.Recovery
	if r == nil || do.Generation != t.Layout.Generation || !r.fencing[m.ID] {
		return
	}
	h, ok := a.Result.(tiers.Holdings)
	if !ok {
		t.machines.GiveUp(m.Machine, "it would not be fenced: "+a.Error)
		return
	}
	delete(r.fencing, m.ID)
	r.Holdings[m.ID] = h
}

func (t *Training) advanceRecovery() {
	r := t.Recovery
	if r == nil {
		return
	}
	if r.again {
		r.fence(t) // there may be no machine left to ask
	}
	if len(r.fencing) > 0 {
		return
	}
	if !r.returning {
		r.goBack(t)
		return
	}
	if waiting[tiers.Recover](t.Nodes) {
		return
	}
	t.Recovery = nil
	t.Cuts.Due = t.Now.Add(t.cfg.CutEvery)
	if t.endsAtCut {
		t.Halt = &Halting{Purpose: ending, why: t.Stop, phase: haltExporting}
		t.Halt.export(t)
		return
	}
	t.layOut()
}

// goBack decides which machine serves each partition at the committed cut: its owner, if it is alive and can undo, otherwise its backup.
// Regular moves spread the partitions again afterwards.
func (r *recovery) goBack(t *Training) {
	kept := 0
	for p, owner := range t.Layout.Route.Owner {
		h, alive := r.Holdings[owner]
		if m := t.Nodes.ByID[owner]; alive && !m.Warned && h.Undo == t.Cuts.Committed && slices.Contains(h.Owned, ps.Partition(p)) {
			kept++
			continue
		}
		backup := r.holder(t, ps.Partition(p))
		if backup == "" {
			t.startOver(fmt.Sprintf("%s; no machine holds partition %d at cut %d", r.why, p, t.Cuts.Committed))
			return
		}
		t.Layout.Route.Owner[p] = backup
	}
	t.Layout.Route.Version++
	t.Cuts.cutReached()
	lost := t.Clocks.rollback(t.Cuts.Committed)
	t.Totals.Rollbacks++
	t.Totals.Lost += lost
	t.Record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Rollback, Generation: uint64(t.Layout.Generation), Clock: int64(t.Cuts.Committed), LostClocks: int64(lost), Why: r.why,
			Partitions: len(t.Layout.Route.Owner) - kept,
		}
	})
	// Dead machines hold no splits. The others keep theirs; the rest go where the layout wants them. If the run ends here, no clock begins.
	for i := range t.Layout.Splits {
		if m := t.Nodes.ByID[t.Layout.Splits[i].Holder]; t.endsAtCut || m == nil || !m.Member() || m.Warned {
			t.Layout.hand(ps.Split(i), "")
		}
		t.Layout.Splits[i].next = t.Cuts.Committed + 1
		t.Layout.askNoMore(ps.Split(i))
	}
	r.returning = true
	held := map[ps.ServerID][]ps.Split{}
	for i := range t.Layout.Splits {
		holder := t.Layout.Splits[i].Holder
		held[holder] = append(held[holder], ps.Split(i))
	}
	news := t.Layout.setRoute() // one for all: thousands of machines with a list of all others each would take gigabytes
	for _, m := range t.Nodes.reachable() {
		t.Nodes.send(m.ID, tiers.Recover{
			Generation: news.Generation, Cut: t.Cuts.Committed, Route: news.Route, Peers: news.Peers, Splits: held[m.ID],
		})
	}
	t.Layout.routeNews = false
}

// holder returns a machine that has the committed cut of a partition: its backup, or the previous one.
func (r *recovery) holder(t *Training, p ps.Partition) ps.ServerID {
	if backup := t.Layout.Route.Backup[p]; holds(r.Holdings[backup], p, t.Cuts.Committed) {
		return backup
	}
	for _, m := range t.Nodes.reachable() {
		if m.Keeps && holds(r.Holdings[m.ID], p, t.Cuts.Committed) {
			return m.ID
		}
	}
	return ""
}

// startOver restarts from the newest checkpoint or the initial state, because no machine holds the committed cut. The remaining machines
// are fenced at this generation and wait until the reliable tier is complete again (secure, stand).
func (t *Training) startOver(why string) {
	from := t.Saves.Newest
	at := t.Saves.At
	if from == "" {
		from, at = t.cfg.Job.ResumeFrom, t.cfg.Job.ResumeAt
	}
	t.cfg.Job.ResumeFrom, t.cfg.Job.ResumeAt = from, at
	if from == "" {
		why += "; there is no checkpoint: back to the beginning"
	} else {
		why += "; back to the checkpoint " + from
	}
	t.Cuts.Cut, t.Halt, t.Recovery, t.Settle, t.Pause.AtRest = nil, nil, nil, nil, false
	clear(t.Layout.Moves)
	if len(t.Nodes.Members()) == 0 {
		t.Layout.Generation++ // no machine was fenced
	}
	t.Cuts.bare = false
	t.Cuts.Committed, t.Layout.Stage = at, max(t.Layout.Stage, tiers.Stage1)
	clear(t.Layout.Route.Owner)
	clear(t.Layout.Route.Backup)
	t.Layout.Route.Version, t.Layout.routeNews = 0, false
	t.Layout.setTarget(tiers.Layout{})
	for i := range t.Layout.Splits {
		t.Layout.hand(ps.Split(i), "")
		t.Layout.Splits[i].next = at + 1
	}
	lost := max(t.Clocks.rollback(at), 0)
	t.Totals.Rollbacks++
	t.Totals.Lost += lost
	t.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.Rollback, Generation: uint64(t.Layout.Generation), Clock: int64(at), LostClocks: int64(lost),
			Partitions: len(t.Layout.Route.Owner), Why: why}
	})
	t.machines.StartedOver()
	t.ReadySince = time.Time{}
}
