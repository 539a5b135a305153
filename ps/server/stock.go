package server

import "github.com/tierml/tierml/ps"

// Stock describes what a server holds.
type Stock struct {
	Generation ps.Generation
	Suspended  bool // between FenceGeneration and Recover
	Version    uint64
	Named      ps.Clock // the cut that is named or in transit to the backups; 0 = none
	Owned      []ps.OwnedPartition
	Backups    []ps.BackupHolding
}

// TakeStock returns the server's holdings.
func (s *Server) TakeStock() Stock {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Stock{Generation: s.generation, Suspended: s.suspended, Version: s.route.Version, Named: s.announcer.named, Backups: s.backups.holdings()}
	for _, shard := range s.owned() {
		out.Owned = append(out.Owned, shard.Status())
	}
	return out
}
