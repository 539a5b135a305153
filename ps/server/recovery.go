package server

import (
	"errors"
	"fmt"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// FenceWorker gives up an incarnation: neither the present partitions nor those that arrive later accept anything more from it. It waits
// for a partition that is just leaving.
func (s *Server) FenceWorker(incarnation ps.Incarnation) []ps.OwnerStanding {
	for {
		standings, wait := s.fenceWorker(incarnation)
		if wait == nil {
			return standings
		}
		<-wait // MoveOut ends with its context, and the slot changes then
	}
}

func (s *Server) fenceWorker(incarnation ps.Incarnation) (standings []ps.OwnerStanding, wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fenced[incarnation] = true
	for _, slot := range s.slots {
		switch slot.state {
		case leaving:
			return nil, slot.wait()
		case owned:
			standings = append(standings, slot.shard.StatusOf(incarnation))
		}
	}
	return standings, nil
}

// SettleWorker ends what a fenced incarnation has staged here: it is committed or dropped.
func (s *Server) SettleWorker(incarnation ps.Incarnation, sequence uint64, commit bool) error {
	err := s.settleWorker(incarnation, sequence, commit)
	s.announcer.notifyBackups()
	return err
}

func (s *Server) settleWorker(incarnation ps.Incarnation, sequence uint64, commit bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed []error
	for _, slot := range s.slots {
		if slot.state == absent {
			continue
		}
		folded, err := slot.shard.Settle(incarnation, sequence, commit)
		if err != nil {
			failed = append(failed, fmt.Errorf("settle incarnation %d in partition %d: %w", incarnation, slot.id, err))
		}
		if folded {
			slot.fold()
		}
	}
	return errors.Join(failed...)
}

// Promote makes this server the owner of partitions that it backs up, at the committed cut that it holds. Partitions that it already owns
// do not change.
func (s *Server) Promote(cut ps.Clock, partitions []ps.Partition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range partitions {
		slot := s.slots[p]
		if slot.state != absent {
			continue
		}
		shard, err := s.backups.promote(p, cut)
		if err != nil {
			return fmt.Errorf("promote partition %d: %w", p, err)
		}
		s.own(slot, shard)
	}
	return nil
}

// FenceGeneration stops all service for generations before this one, ends moves and pulls, and returns what this server can return to.
// Service continues with Recover. Repeating it is harmless.
func (s *Server) FenceGeneration(generation ps.Generation) ps.Holdings {
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation > s.generation {
		s.beginGeneration(generation)
		s.suspended = true
		for _, slot := range s.slots {
			if slot.state == leaving {
				slot.stay()
			}
			if slot.shard != nil {
				slot.shard.CancelMove()
			}
			slot.arrival = nil
			slot.wake()
		}
	}
	return ps.HoldingsOf(s.owned(), s.backups.holdings())
}

// Recover returns the partitions that the route gives to this server to a committed cut, by their own undo or
// from the backup here, and resumes service under the fenced generation. Everything else that was owned is
// dropped. A server that began in this generation and has no route yet needs no fence. After an error service stays suspended
// and Recover may be tried again.
func (s *Server) Recover(
	generation ps.Generation, cut ps.Clock, route ps.Route, peers map[ps.ServerID]string,
) error {
	return s.recoverBy(generation, cut, route, peers, s.returnTo)
}

// RecoverFrom is Recover if no server holds the cut any more: everything here is dropped, and what the route gives to this server, to own
// and to back up, is read from a checkpoint. Rows contains it by partition; nil is the initial state, at clock 0.
func (s *Server) RecoverFrom(
	generation ps.Generation, cut ps.Clock, route ps.Route, peers map[ps.ServerID]string, rows map[ps.Partition]*ps.Block,
) error {
	return s.recoverBy(generation, cut, route, peers, func(cut ps.Clock, route ps.Route) error { return s.beginAt(cut, route, rows) })
}

func (s *Server) recoverBy(
	generation ps.Generation, cut ps.Clock, route ps.Route, peers map[ps.ServerID]string, back func(ps.Clock, ps.Route) error,
) error {
	if done, err := s.recover(generation, cut, route, peers, back); err != nil || done {
		return err
	}
	s.SetRoute(generation, route, peers) // for the links that depend on it
	return nil
}

// recover is done if there is nothing to do.
func (s *Server) recover(
	generation ps.Generation, cut ps.Clock, route ps.Route, peers map[ps.ServerID]string, back func(ps.Clock, ps.Route) error,
) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case generation < s.generation:
		return false, fmt.Errorf("recover generation %d: %w; now it is %d", generation, wire.ErrStale, s.generation)
	case generation > s.generation:
		s.beginGeneration(generation)
		s.suspended = true
	case !s.suspended && s.recovered == cut:
		return true, nil // reported before
	case !s.suspended && s.routed:
		return false, fmt.Errorf("recover cut %d: %w: generation %d is being served", cut, ps.ErrInvalid, generation)
	}
	if err := back(cut, route); err != nil {
		return false, fmt.Errorf("return to cut %d: %w", cut, err)
	}
	clear(s.fenced) // their messages belong to an older generation
	s.setRoute(route, peers)
	s.suspended, s.recovered = false, cut
	for _, slot := range s.slots {
		slot.wake()
	}
	return false, nil
}

// returnTo returns partitions and backups to a cut.
func (s *Server) returnTo(cut ps.Clock, route ps.Route) error {
	failed := s.backups.returnTo(cut)
	shards := make([]*ps.Shard, len(s.slots))
	for p, slot := range s.slots {
		if serverAt(route.Owner, p) != s.cfg.Self {
			continue
		}
		var err error
		if shards[p], err = s.shardAt(slot, cut); err != nil {
			failed = append(failed, fmt.Errorf("partition %d: %w", p, err))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for p, slot := range s.slots {
		slot.clear()
		if shards[p] != nil {
			slot.state, slot.shard = owned, shards[p]
		}
	}
	return nil
}

// beginAt sets partitions and backups to a checkpoint.
func (s *Server) beginAt(cut ps.Clock, route ps.Route, rows map[ps.Partition]*ps.Block) error {
	shards, backups := make([]*ps.Shard, len(s.slots)), make([]*ps.Backup, len(s.slots))
	for i := range s.slots {
		p := ps.Partition(i)
		var err error
		if serverAt(route.Owner, i) == s.cfg.Self {
			if shards[i], err = s.places.restore(p, cut, rows); err != nil {
				return fmt.Errorf("partition %d: %w", p, err)
			}
		}
		if serverAt(route.Backup, i) == s.cfg.Self {
			if backups[i], err = s.backups.restore(p, cut, rows); err != nil {
				return fmt.Errorf("backup of partition %d: %w", p, err)
			}
		}
	}
	for i, slot := range s.slots {
		slot.clear()
		if shards[i] != nil {
			slot.state, slot.shard = owned, shards[i]
		}
		b := s.backups.all[i]
		b.clear()
		b.rows = backups[i]
	}
	return nil
}

// shardAt returns a partition at a cut: the one served here, or else the backup's.
func (s *Server) shardAt(slot *slot, cut ps.Clock) (*ps.Shard, error) {
	if slot.shard != nil {
		err := slot.shard.Rollback(cut)
		if err == nil {
			return slot.shard, nil
		}
		if !errors.Is(err, ps.ErrNoUndo) {
			return nil, err
		}
	}
	return s.backups.promote(slot.id, cut)
}
