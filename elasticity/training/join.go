package training

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/tiers"
)

// stand starts the job on the reliable machines: stage 1. If it restarts from a checkpoint, other machines already exist.
func (t *Training) stand() {
	t.Layout.setTarget(tiers.Next(t.Layout.present(), t.Nodes.ReliableMembers(), t.cfg.Stages))
	t.Layout.Route.Version = 1
	t.Layout.Route.Owner = slices.Clone(t.Layout.Target.Route.Owner)
	t.Layout.Route.Backup = slices.Clone(t.Layout.Target.Route.Backup)
	news := t.Layout.setRoute()
	for _, m := range t.Nodes.reachable() {
		if t.Layout.Stood {
			t.Nodes.send(m.ID, tiers.Recover{
				Generation: news.Generation, Cut: t.cfg.Job.ResumeAt, Checkpoint: t.cfg.Job.ResumeFrom, Initial: t.cfg.Job.ResumeFrom == "",
				Route: news.Route, Peers: news.Peers,
			})
			continue
		}
		owned, backedUp := partitionsOf(t.Layout.Route.Owner, m.ID), partitionsOf(t.Layout.Route.Backup, m.ID)
		t.Nodes.send(m.ID, tiers.BackUp{Partitions: backedUp, Checkpoint: t.cfg.Job.ResumeFrom, Cut: t.cfg.Job.ResumeAt})
		t.Nodes.send(m.ID, tiers.Own{Partitions: owned, Checkpoint: t.cfg.Job.ResumeFrom, Cut: t.cfg.Job.ResumeAt})
	}
	t.Cuts.Due, t.Cuts.Pace.At = t.Now.Add(t.cfg.CutEvery), t.Now
	t.Clocks.since = t.Now
	reliable := len(t.Nodes.ReliableMembers())
	if !t.Layout.Stood || t.Layout.Stage != tiers.Stage1 {
		from := ""
		if t.Layout.Stood {
			from = fmt.Sprint(int(t.Layout.Stage))
		}
		t.Record(func() journal.Entry {
			return journal.Entry{
				Kind: journal.Stage, From: from, To: fmt.Sprint(int(tiers.Stage1)), Reliable: reliable, Clock: int64(t.Clocks.Done),
				Why: "the job starts on the reliable machines",
			}
		})
	}
	t.Layout.Stood, t.Layout.Stage = true, tiers.Stage1
}

// Join lets ready machines join training, together with others that are nearly ready, so that partitions and splits move once.
func (t *Training) Join() {
	if t.Halt != nil || t.Recovery != nil || t.adopting != nil || t.Ending || t.Stop != "" || t.Clocks.Over() {
		return
	}
	ready, coming := t.candidates()
	t.coming = coming
	if ready == 0 {
		t.ReadySince = time.Time{}
		return
	}
	if t.ReadySince.IsZero() {
		t.ReadySince = t.Now
	}
	if coming > 0 && (!t.Layout.Standing() || t.Now.Before(t.ReadySince.Add(t.cfg.JoinWait))) {
		return
	}
	t.Pause.wake() // newcomers are not parked
	joining := t.Nodes.ordered(t.mayJoin)
	t.ReadySince = time.Time{}
	for _, m := range joining {
		t.Nodes.joins++
		m.Joined = t.Nodes.joins
	}
	t.Nodes.sort()
	t.machines.Reorder()
	if !t.Layout.Standing() {
		t.stand()
	}
	route := t.Layout.setRoute()
	for _, m := range joining {
		t.Nodes.send(m.ID, route)
	}
	t.layOut()
	for _, m := range joining {
		t.machines.Joined(m.Machine, func() journal.Entry {
			return journal.Entry{
				Splits:     len(splitsOf(t.Layout.Target.Worker, m.ID)),
				Partitions: len(partitionsOf(t.Layout.Target.Route.Owner, m.ID)),
				Clock:      int64(t.Clocks.Done),
				Why:        "ready with its data: " + roleNames(t.Layout.Target.Roles(tiers.Member{ID: m.ID, Tier: m.Tier})),
			}
		})
	}
}

// mayJoin reports whether a machine is ready to take part and does not yet. Reliable ones need all their data.
func (t *Training) mayJoin(m *Node) bool {
	return m.Joined == 0 && m.Ready && m.Staying() && (m.Tier == tiers.Transient && t.Layout.Standing() || m.Tier == tiers.Reliable && !m.Loading)
}

// candidates counts the machines that may join, and those that are starting.
func (t *Training) candidates() (ready, coming int) {
	for _, m := range t.Nodes.Roster {
		if m.Joined > 0 {
			break // as have all that follow
		}
		switch {
		case !m.Staying() || m.Tier == tiers.Transient && !t.Layout.Standing():
		case t.mayJoin(m):
			ready++
		default:
			coming++
		}
	}
	return ready, coming
}

// Admit returns why this number of reliable machines of a type cannot hold the job alone; nil if they can, or if that is unknown.
func (t *Training) Admit(reliable int, name string, memoryMiB int64) error {
	usable, need := tiers.UsableMemory(memoryMiB), tiers.ReliableMemory(&t.cfg.Job.Schema, reliable)
	if reliable < 1 || usable == 0 || need.Total() <= usable {
		return nil
	}
	return fmt.Errorf("%s of %s cannot hold the job alone: each needs up to %s (state %s, undo %s, pending sums %s, contributions %s, two cuts %s) and has %s for it",
		step.Number(reliable, "reliable machine"), name, size(need.Total()), size(need.Rows), size(need.Undo), size(need.Pending),
		size(need.Staged), size(need.Cuts), size(usable))
}

// Short returns why the remaining reliable machines cannot hold the job alone; nil if they can.
func (t *Training) Short(wanted int, name string, memoryMiB int64) error {
	if left := len(t.Nodes.ReliableMembers()); t.Layout.Stood && left < wanted {
		return t.Admit(left, name, memoryMiB)
	}
	return nil
}

// Rejoin lets the remaining reliable machines resume the job, from the checkpoint that everything returned to.
func (t *Training) Rejoin(name string, memoryMiB int64) {
	left := len(t.Nodes.ReliableMembers())
	if !t.Layout.Standing() && t.Layout.Stood && t.Recovery == nil && left > 0 && t.Admit(left, name, memoryMiB) == nil {
		t.stand()
		t.layOut()
	}
}
