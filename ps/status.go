package ps

import (
	"slices"
	"time"
)

// Servers' reports about their partitions.

// OwnedPartition is what an owner knows about a partition.
type OwnedPartition struct {
	Partition Partition
	Base      Clock // newest cut known to be committed
	Folded    Clock
	Marks     []Clock // Index: Split
}

// Serving is a server's work for a partition since it began, whether it owned the partition all the time or not: the wall-clock time to
// hold and fold contributions, and the number of clocks folded. Reads and messages are not included.
type Serving struct {
	Partition Partition
	Took      time.Duration
	Clocks    int64
}

// OwnerStanding is one partition's knowledge of an incarnation.
type OwnerStanding struct {
	Partition Partition
	Standing  Standing
	Marks     []Clock // Index: Split
}

// BackupHolding is what a backup holds of one partition.
type BackupHolding struct {
	Partition Partition
	Cut       Clock // committed; NoCut = none
	Delivered Clock // complete and waiting for its commit; 0 = none
}

// NoCut stands for the cut of a backup that has not received one yet.
const NoCut Clock = -1

// Holdings are the cuts that a server can return to.
type Holdings struct {
	Owned   []Partition // that can return to Undo by themselves
	Undo    Clock
	Backups []BackupHolding
}

// HoldingsOf names one cut to return to: the newest. Shards that cannot return to it are not listed as owned, so that their backups
// serve.
func HoldingsOf(owned []*Shard, backups []BackupHolding) Holdings {
	h := Holdings{Backups: backups}
	for _, s := range owned {
		if base, undo := s.Base(); undo {
			h.Undo = max(h.Undo, base)
		}
	}
	for _, s := range owned {
		if base, undo := s.Base(); undo && base == h.Undo {
			h.Owned = append(h.Owned, s.id)
		}
	}
	return h
}

// Status returns the shard's status.
func (s *Shard) Status() OwnedPartition {
	base, _ := s.Base()
	return OwnedPartition{Partition: s.id, Base: base, Folded: s.folded, Marks: slices.Clone(s.marks)}
}

// StatusOf fences an incarnation and returns its status.
func (s *Shard) StatusOf(inc Incarnation) OwnerStanding {
	return OwnerStanding{Partition: s.id, Standing: s.Fence(inc), Marks: slices.Clone(s.marks)}
}

// Holding describes what the backup holds.
func (b *Backup) Holding() BackupHolding {
	h := BackupHolding{Partition: b.id, Cut: b.cut, Delivered: b.Delivered()}
	if b.lacking {
		h.Cut = NoCut
	}
	return h
}

// Moved is the cost of a move. Lengths are wall-clock seconds.
type Moved struct {
	Bytes   int64   // of rows; rows that changed during the move count again
	Seconds float64 // in which rows travelled
	Waited  float64 // in which a worker waited because neither owner served
}
