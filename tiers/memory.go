package tiers

import "github.com/tierml/tierml/ps"

// Memory is what the reliable tier needs to continue alone (docs/training.md, State), in bytes on the machine that
// has most of it. It then owns every partition and backs every one up:
//
//	owner  = state + undo layer (every row may have changed) + pending (a sum for each clock that may be open)
//	         + staged (contributions until their commit; of every row at least one, where splits share rows one by each worker)
//	backup = two cuts: the committed one, and the one that is on its way
//
// The machine's worker is not in Total: the rows that its splits touch are known when they have been loaded. Worker is its rows and sums if
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

// UsableMemory returns what training may take of a machine's memory, in bytes; 0 = the catalog does not say.
func UsableMemory(mib int64) int64 { return int64(usableShare * float64(mib<<20)) }

// MemoryFor returns how much memory a machine must have for training to get this many bytes.
func MemoryFor(bytes int64) int64 { return int64(float64(bytes) / usableShare) }

// rowOverhead is the size of a stored row without its cells, in bytes: its key, its place in the index and its tags.
const rowOverhead = 24

// unboundedClocks represents the clocks that may be open under ASP, where there is no bound.
const unboundedClocks = 2

// ReliableMemory returns the peak memory of each of the machines that hold a job alone.
func ReliableMemory(s *ps.Schema, reliable int) Memory { return memoryOf(s, nil, reliable) }

// WorkerMemory returns the memory of a worker that reads that many rows of each table in a clock: the rows as they are, a working copy,
// and the sums of what it changes. Index: TableID; nil = all rows.
func WorkerMemory(s *ps.Schema, rows []uint64) int64 { return memoryOf(s, rows, 1).Worker }

// ServingMemory returns the memory that each of the transient servers needs for rows that change in every clock: its share of
// these, their undo, and for two workers the sums of one and the contribution of the other. Cuts are the backups'.
func ServingMemory(s *ps.Schema, rows []uint64, servers int) int64 {
	bsp := *s
	bsp.Staleness = 0 // more clocks may be open, but need not be
	m := memoryOf(&bsp, rows, servers)
	return m.Total() - m.Cuts
}

// memoryOf is ReliableMemory for that many rows of each table, nil = all.
func memoryOf(s *ps.Schema, rows []uint64, machines int) Memory {
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
		n := float64(t.Rows)
		if rows != nil {
			n = float64(rows[i])
		}
		state += n * (4*float64(t.Width()) + rowOverhead)
		cell := 4.0
		if s.Deterministic || t.Kind == ps.Int32 {
			cell = 8 // sums are 64-bit integers, which add the same in any order
		}
		sums += n * (cell*float64(t.Cols) + rowOverhead)
		read += n * (4*float64(t.Cols) + rowOverhead)
	}
	machines = max(machines, 1)
	most := (s.Partitions + machines - 1) / machines
	share := float64(most) / float64(max(s.Partitions, 1))
	return Memory{
		State: int64(state), Share: share,
		Rows: int64(state * share), Undo: int64(state * share), Pending: int64(sums * clocks * share),
		Staged: int64(sums * share), Cuts: int64(2 * state * share), Worker: int64(2*read + sums),
	}
}
