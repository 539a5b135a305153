package tiers

import "github.com/tierml/tierml/ps"

// Memory is what the reliable tier needs to continue alone (docs/training.md, State), in bytes on the machine that
// has most of it. It then owns every partition and backs every one up:
//
//	owner  = state + undo layer (every row may have changed) + pending (a sum for each clock that may be open)
//	         + staged (contributions until their commit; of every row at least one, where splits share rows one by each worker)
//	backup = two cuts: the committed one, and the one that is on its way
//
// The worker beside it is not in Total: what its splits touch is known when they have been loaded. Worker is its rows and sums if
// that is everything.
//
// Slots of rules belong to the state. Sparse tables are not in it: how many of their cells are not 0 is not known beforehand.
type Memory struct {
	State   int64 // of all machines together, once
	Share   float64
	Rows    int64 // state, of the machine's share
	Undo    int64
	Pending int64
	Staged  int64
	Cuts    int64
	Worker  int64
}

// Total is all of it.
func (m Memory) Total() int64 { return m.Rows + m.Undo + m.Pending + m.Staged + m.Cuts }

// usableShare is the part of a machine's memory that training may take; the rest is the system's.
const usableShare = 0.85

// UsableMemory is what training may take of a machine's memory, in bytes; 0 = the catalog does not say.
func UsableMemory(mib int64) int64 { return int64(usableShare * float64(mib<<20)) }

// rowOverhead is what a stored row takes beside its cells, in bytes: its key, its place in the index and its tags.
const rowOverhead = 24

// unboundedClocks stands for the clocks that may be open under ASP, where there is no bound.
const unboundedClocks = 2

// ReliableMemory returns the peak of a reliable machine among so many that hold a job alone.
func ReliableMemory(s *ps.Schema, reliable int) Memory {
	var state, sums, read float64
	clocks := float64(s.Bound() + 1)
	if s.Bound() == ps.Unbounded {
		clocks = unboundedClocks
	}
	for i := range s.Tables {
		t := &s.Tables[i]
		if t.Sparse {
			continue
		}
		rows := float64(t.Rows)
		state += rows * (4*float64(t.Width()) + rowOverhead)
		cell := 4.0
		if s.Deterministic || t.Kind == ps.Int32 {
			cell = 8 // sums are 64-bit integers, which add the same in any order
		}
		sums += rows * (cell*float64(t.Cols) + rowOverhead)
		read += rows * (4*float64(t.Cols) + rowOverhead)
	}
	reliable = max(reliable, 1)
	most := (s.Partitions + reliable - 1) / reliable
	share := float64(most) / float64(max(s.Partitions, 1))
	return Memory{
		State: int64(state), Share: share,
		Rows: int64(state * share), Undo: int64(state * share), Pending: int64(sums * clocks * share),
		Staged: int64(sums * share), Cuts: int64(2 * state * share), Worker: int64(2*read + sums),
	}
}
