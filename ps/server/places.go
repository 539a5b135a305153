package server

import (
	"context"
	"fmt"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// places has a slot for each partition of the job, owned or not, and runs requests on the owned ones.
//
// Locks: see the slots; the list never changes. Fenced is written with term.mu held for writing.
type places struct {
	schema *ps.Schema
	term   *term
	slots  []*slot // Index: Partition
	fenced map[ps.Incarnation]bool
	now    func() time.Time // measures serving
}

func (s *places) init(schema *ps.Schema, t *term) {
	s.schema, s.term, s.now = schema, t, time.Now
	s.slots, s.fenced = make([]*slot, schema.Partitions), map[ps.Incarnation]bool{}
	for i := range s.slots {
		s.slots[i] = &slot{id: ps.Partition(i), serving: ps.Serving{Partition: ps.Partition(i)}}
	}
}

// own puts a shard into service. mu must be held for writing, or for reading together with the slot's lock.
func (s *places) own(slot *slot, shard *ps.Shard) {
	for incarnation := range s.fenced { // in any order: they are independent
		shard.Fence(incarnation)
	}
	slot.clear()
	slot.state, slot.shard = owned, shard
}

// owned lists the shards here. mu must be held for writing.
func (s *places) owned() (shards []*ps.Shard) {
	for _, slot := range s.slots {
		if slot.state != absent {
			shards = append(shards, slot.shard)
		}
	}
	return shards
}

// restore creates a shard from a checkpoint's rows; see Server.RecoverFrom.
func (s *places) restore(p ps.Partition, cut ps.Clock, rows map[ps.Partition]*ps.Block) (*ps.Shard, error) {
	switch {
	case rows[p] != nil:
		return ps.RestoreShard(s.schema, p, cut, rows[p])
	case rows != nil || cut != 0:
		return nil, fmt.Errorf("%w: it is not in the checkpoint", ps.ErrInvalid)
	}
	return ps.NewShard(s.schema, p), nil
}

// serve runs f on a partition that is owned here. If f must wait, or the partition is leaving, it waits for a change and calls f again.
// With noWait it returns mustWait instead.
func (s *places) serve(ctx context.Context, generation ps.Generation, p ps.Partition,
	f func(*slot) (status wire.Code, wait bool),
) (wire.PartitionStatus, *wire.Error) {
	return s.serveOr(ctx, generation, p, false, f)
}

// serveRead is serve for an f that only reads slot.readable: a partition being received may be readable, too.
func (s *places) serveRead(ctx context.Context, generation ps.Generation, p ps.Partition,
	f func(*slot) (status wire.Code, wait bool),
) (wire.PartitionStatus, *wire.Error) {
	return s.serveOr(ctx, generation, p, true, f)
}

func (s *places) serveOr(ctx context.Context, generation ps.Generation, p ps.Partition, reads bool,
	f func(*slot) (status wire.Code, wait bool),
) (wire.PartitionStatus, *wire.Error) {
	if int(p) >= len(s.slots) {
		return wire.PartitionStatus{Partition: p, Code: wire.Invalid}, nil
	}
	slot := s.slots[p]
	for {
		status, changed, epoch, refusal := s.try(slot, generation, reads, f)
		if changed == nil || refusal != nil {
			return status, refusal
		}
		if ctx == noWait {
			return status, mustWait.(*wire.Error)
		}
		select {
		case <-changed:
		case <-epoch.Done():
		case <-ctx.Done():
			return wire.PartitionStatus{Partition: p, Code: wire.Retry}, nil
		}
	}
}

// try makes one attempt of serve. It returns channels to wait for if another is needed.
func (s *places) try(slot *slot, generation ps.Generation, reads bool, f func(*slot) (wire.Code, bool)) (
	status wire.PartitionStatus, changed <-chan struct{}, epoch context.Context, refusal *wire.Error,
) {
	s.term.mu.RLock()
	defer s.term.mu.RUnlock()
	if refusal := s.term.admit(generation); refusal != nil {
		return status, nil, nil, refusal
	}
	slot.mu.Lock()
	defer slot.mu.Unlock()
	switch filling := slot.filling(); {
	case slot.state == absent && !filling, slot.state == leaving && slot.to != "":
		return slot.elsewhere(), nil, nil, nil
	case slot.state == owned, filling && reads:
		if code, wait := f(slot); !wait {
			return wire.PartitionStatus{Partition: slot.id, Code: code}, nil, nil, nil
		}
	default:
		slot.miss()
	}
	return status, slot.wait(), s.term.epoch, nil
}
