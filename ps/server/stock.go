package server

import "github.com/tierml/tierml/ps"

// Stock is what a server holds.
type Stock struct {
	Generation ps.Generation
	Suspended  bool // between FenceGeneration and Recover
	Version    uint64
	Named      ps.Clock // the cut that is named or on its way to the backups; 0 = none
	Owned      []OwnedStock
	Backups    []BackupHolding
}

// OwnedStock is what an owned partition knows.
type OwnedStock struct {
	Partition ps.Partition
	Base      ps.Clock // newest cut known to be committed
	Folded    ps.Clock
	Marks     []ps.Clock // Index: Split
}

// TakeStock says what is here.
func (s *Server) TakeStock() Stock {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Stock{Generation: s.generation, Suspended: s.suspended, Version: s.route.Version, Named: s.announcer.named, Backups: s.backups.holdings()}
	for _, slot := range s.slots {
		if slot.state == absent {
			continue
		}
		o := OwnedStock{Partition: slot.id, Folded: slot.shard.Folded()}
		o.Base, _ = slot.shard.Base()
		for split := range s.schema.Splits {
			o.Marks = append(o.Marks, slot.shard.Mark(ps.Split(split)))
		}
		out.Owned = append(out.Owned, o)
	}
	return out
}
