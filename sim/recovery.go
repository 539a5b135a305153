package sim

import (
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// What is left when machines are lost, and how training returns to it.

// standings of a dead worker: a clock's part is committed everywhere or nowhere here, so that nothing is ever staged.
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

// fence stops all service for older generations, and says what the node can return to.
func (n *node) fence(g ps.Generation) tiers.Holdings {
	n.fenced, n.busy, n.named, n.releases = g, false, 0, nil
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
	return h
}

// save writes what the node backs up beside its work, which goes on.
func (n *node) save(id uint64, do tiers.SaveCut) {
	var saved tiers.Saved
	for _, p := range do.Partitions {
		saved.Parts = append(saved.Parts, tiers.SavedPart{Partition: p})
	}
	n.answer(id, n.f.w.transfer(), tiers.CodeOK, saved)
}

// recover returns to a committed cut, which backups hold or read from a checkpoint. The first node that is told takes everybody's progress back, as nothing is
// computed before the last one has been told.
func (n *node) recover(do tiers.Recover) {
	f := n.f
	f.cut, f.delivered, f.committed, f.complete = 0, do.Cut, do.Cut, do.Cut
	n.generation, n.parked, n.until, n.busy, n.releases = do.Generation, false, f.w.cfg.Job.Clocks, false, nil
	for i := range f.splits {
		s := &f.splits[i]
		s.next, s.left, s.working = do.Cut+1, 1, false
		if s.holder == n || s.holder != nil && !s.holder.alive {
			s.holder = nil
		}
	}
	for _, i := range do.Splits {
		f.splits[i].holder = n
	}
	n.employed = true
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
}
