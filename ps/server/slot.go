package server

import (
	"sync"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

// state is what a partition is to this server.
type state int

const (
	absent state = iota
	owned
	// leaving: the last message of a move is on its way, and neither side serves until it is acknowledged. If that message went first
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
	changed  chan struct{} // closed when a request that waits should look again; nil: none waits
	arrival  *arrival      // while it is being received, or is here and may not be used yet
	newest   wire.MoveID   // newest move of this generation that a message was about
	arrived  wire.MoveID   // the move that brought it, if one did
	outgoing *outgoing     // the cut that its backup pulls
	window   window
	serving  ps.Serving // since the process began, regardless of ownership in between
	missed   time.Time  // when a request came while it was leaving, the first one; zero = none

	// to and address are where it went from here, or goes by a move whose last message went first; "" = it was never here.
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
	// shard is all of it, once the last message has come. It serves when the sender is known to have given it up: until then the
	// sender may continue as before without this server's knowledge, and this is a copy that counts for nothing.
	shard *ps.Shard
	fill  *fill // of a move whose last message came first; nil: it does not serve
}

// wait returns a channel that is closed when it is time to look again.
func (s *slot) wait() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// wake lets requests that wait look again.
func (s *slot) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// clear makes the slot as if the partition had never been here.
func (s *slot) clear() {
	s.state, s.shard, s.arrival, s.arrived, s.outgoing = absent, nil, nil, wire.MoveID{}, nil
	s.to, s.address = "", ""
	s.wake()
}

// leave remembers where the partition went.
func (s *slot) leave(to ps.ServerID, address string) {
	s.clear()
	s.to, s.address = to, address
}

// stay makes the slot as if no move had begun.
func (s *slot) stay() {
	s.state, s.to, s.address = owned, "", ""
	s.wake()
}

// met returns for how many seconds requests have waited for a partition that no server served.
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
