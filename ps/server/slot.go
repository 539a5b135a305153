package server

import (
	"sync"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// state is a partition's state at this server.
type state int

const (
	absent state = iota
	owned
	// leaving: the last message of a move was sent, and neither side serves until it is acknowledged. If that message was sent first
	// (Move.FaultIn), the new owner answers requests from then on, to is set, and the rows here do not change.
	leaving
)

// slot is the place of one partition. Everything in it is guarded by term.mu held for writing, or for
// reading together with the slot's own lock.
type slot struct {
	id ps.Partition

	mu       sync.Mutex
	state    state
	shard    *ps.Shard     // unless absent
	changed  chan struct{} // closed when a waiting request should check again; nil: none waits
	arrival  *arrival      // while it is being received, or has arrived but may not be used yet
	newest   wire.MoveID   // newest move of this generation in any message
	arrived  wire.MoveID   // the move that brought it, if any
	outgoing *outgoing     // the cut that its backup pulls
	window   window
	serving  ps.Serving // since the process began, regardless of ownership in between
	missed   time.Time  // when the first request arrived while it was leaving; zero = none

	// to and address are where it moved to, or moves to if the last message was sent first; "" = it was never here.
	to      ps.ServerID
	address string
}

// arrival is a partition that is being received.
type arrival struct {
	move  wire.MoveID
	rows  *ps.Incoming
	piece uint64 // the next one
	// final is the number of parts of the last message that have arrived.
	final *ps.Final
	parts uint64
	// shard is complete once the last message has arrived. It serves when the sender is known to have given it up: until then the sender
	// may continue as before without this server's knowledge, and this copy does not count.
	shard *ps.Shard
	fill  *fill // for a move whose last message came first; nil: it does not serve
}

// wait returns a channel that is closed when it is time to check again.
func (s *slot) wait() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// wake makes waiting requests check again.
func (s *slot) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// clear resets the slot as if the partition had never been here.
func (s *slot) clear() {
	s.state, s.shard, s.arrival, s.arrived, s.outgoing = absent, nil, nil, wire.MoveID{}, nil
	s.to, s.address = "", ""
	s.wake()
}

// leave records where the partition moved.
func (s *slot) leave(to ps.ServerID, address string) {
	s.clear()
	s.to, s.address = to, address
}

// stay resets the slot as if no move had begun.
func (s *slot) stay() {
	s.state, s.to, s.address = owned, "", ""
	s.wake()
}

// met returns the number of seconds for which requests have waited for a partition that no server served.
func (s *slot) met() (seconds float64) {
	if !s.missed.IsZero() {
		seconds = time.Since(s.missed).Seconds()
	}
	s.missed = time.Time{}
	return seconds
}

// elsewhere returns the answer for a partition that is not here.
func (s *slot) elsewhere() wire.PartitionStatus {
	if s.to == "" || s.arrival != nil && s.arrival.shard != nil {
		return wire.PartitionStatus{Partition: s.id, Code: wire.Retry}
	}
	return wire.PartitionStatus{Partition: s.id, Code: wire.Moved, To: s.to, Address: s.address}
}
