package sim

import (
	"errors"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// This file is the node's part as a server (agent.Server). It makes one simplification: the first node to learn of a
// cut or roll-back learns it for all, as nothing is computed before the last one does.

func (n *node) SetRoute(g ps.Generation, _ ps.Route, _ map[ps.ServerID]string) error {
	n.generation = max(n.generation, g)
	return nil
}

func (n *node) Own(do tiers.Own) error { return n.Promote(do.Cut, do.Partitions) }

func (n *node) Promote(_ ps.Clock, partitions []ps.Partition) error {
	n.employed = true
	for _, p := range partitions {
		n.f.owner[p] = n
	}
	return nil
}

func (n *node) BackUp(do tiers.BackUp) error {
	for _, p := range do.Partitions {
		n.f.backup[p] = n
	}
	return nil
}

func (n *node) NameCut(cut ps.Clock) error {
	if n.f.done() > cut {
		return ps.ErrPassed
	}
	n.named = cut
	if n.f.cut != cut {
		n.f.cut, n.f.round = cut, cutRound{calm: n.f.calm.since, due: n.f.w.elapsed}
		n.f.expectCut()
	}
	return nil
}

// HurryMoves does nothing: moves wait for nothing here.
func (n *node) HurryMoves() {}

func (n *node) UnnameCut(ps.Clock) error {
	n.named, n.f.cut = 0, 0
	return nil
}

func (n *node) CommitCut(cut ps.Clock) error {
	n.f.committed = max(n.f.committed, cut)
	n.f.round.over = n.f.w.elapsed + n.f.w.cfg.Timing.Reply
	return nil
}

// SettleWorker does nothing: a clock's part is committed everywhere or nowhere here, so nothing is ever staged.
func (n *node) SettleWorker(ps.Incarnation, uint64, bool) error { return nil }

// standings returns those of a dead worker.
func (n *node) standings() tiers.Standings {
	var out tiers.Standings
	for p, owner := range n.f.owner {
		if owner == n {
			marks := make([]ps.Clock, len(n.f.splits))
			for i := range marks {
				marks[i] = n.f.splits[i].next - 1
			}
			out.Partitions = append(out.Partitions, tiers.Standing{Partition: ps.Partition(p), Marks: marks})
		}
	}
	return out
}

func (n *node) FenceGeneration(g ps.Generation) (tiers.Holdings, error) {
	n.fenced, n.busy, n.named = g, false, 0
	h := tiers.Holdings{Undo: n.f.committed}
	for p := range n.f.owner {
		if n.f.owner[p] == n {
			h.Owned = append(h.Owned, ps.Partition(p))
		}
		if n.f.backup[p] == n {
			h.Backups = append(h.Backups, tiers.BackupHolding{
				Partition: ps.Partition(p), Cut: n.f.committed, Delivered: n.f.delivered,
			})
		}
	}
	return h, nil
}

// saved returns what was written of a cut, with zero bytes.
func saved(partitions []ps.Partition) (out tiers.Saved) {
	for _, p := range partitions {
		out.Parts = append(out.Parts, tiers.SavedPart{Partition: p})
	}
	return out
}

func (n *node) Recover(do tiers.Recover) error {
	if do.Generation < max(n.generation, n.fenced) {
		return errors.New("an older generation")
	}
	f := n.f
	f.cut, f.delivered, f.committed, f.complete = 0, do.Cut, do.Cut, do.Cut
	if f.recovered != do.Generation { // the first node to learn of it
		f.recovered = do.Generation
		for i := range f.splits {
			f.splits[i] = split{next: do.Cut + 1, left: 1}
		}
	}
	n.generation, n.busy, n.employed = do.Generation, false, true
	for p, id := range do.Route.Owner {
		f.owner[p] = f.byID[id]
		if o := f.owner[p]; o != nil {
			o.employed = true
		}
	}
	if do.Checkpoint != "" || do.Initial {
		for p, id := range do.Route.Backup {
			f.backup[p] = f.byID[id]
		}
	}
	return nil
}
