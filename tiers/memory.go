package tiers

import "github.com/tierml/tierml/ps"

// Memory is what the reliable tier needs to continue alone (docs/training.md, State), in bytes, on the machine that needs most. It then
// owns and backs up every partition:
//
//	owner  = state + undo layer (every row may have changed) + pending (a sum for each clock that may be open)
//	         + staged (contributions until their commit; of every row at least one, where splits share rows one by each worker)
//	backup = two cuts: the committed one, and the one that is on its way
//
// Total does not include the machine's worker: which rows its splits touch is known only after loading. Worker is its rows and sums if it
// touches every row.
//
// Slots of rules belong to the state. Sparse tables are not included: how many of their cells are nonzero is not known beforehand.
type Memory struct {
	State   int64 // of all machines together, counted once
	Share   float64
	Rows    int64 // of the machine's share of the state
	Undo    int64
	Pending int64
	Staged  int64
	Cuts    int64
	Worker  int64
}

// Total returns the sum.
func (m Memory) Total() int64 { return m.Rows + m.Undo + m.Pending + m.Staged + m.Cuts }

// usableShare is the part of a machine's memory that training may use; the rest is for the system.
const usableShare = 0.85

// UsableMemory returns the bytes of a machine's memory that training may use; 0 = unknown to the catalog.
func UsableMemory(mib int64) int64 { return int64(usableShare * float64(mib<<20)) }

// MemoryFor returns how much memory a machine needs for training to have this many bytes.
func MemoryFor(bytes int64) int64 { return int64(float64(bytes) / usableShare) }

// rowOverhead is the size of a stored row without its cells, in bytes: key, index entry and tags.
const rowOverhead = 24

// unboundedClocks represents the number of open clocks under ASP, which has no bound.
const unboundedClocks = 2

// ReliableMemory returns the peak memory of each machine when the reliable machines hold a job alone.
func ReliableMemory(s *ps.Schema, reliable int) Memory { return memoryOf(s, nil, reliable) }

// WorkerMemory returns the memory of a worker that reads this many rows of each table in a clock: the rows, a working copy, and the sums of
// its changes. Index: TableID; nil = all rows.
func WorkerMemory(s *ps.Schema, rows []uint64) int64 { return memoryOf(s, rows, 1).Worker }

// ServingMemory returns the memory that each transient server needs for rows that change in every clock: its share of the rows, their undo,
// and for two workers the sums of one and the contribution of the other. Cuts are counted for the backups.
func ServingMemory(s *ps.Schema, rows []uint64, servers int) int64 {
	bsp := *s
	bsp.Staleness = 0 // more clocks may be open, but this is the least
	m := memoryOf(&bsp, rows, servers)
	return m.Total() - m.Cuts
}

// memoryOf is ReliableMemory for this many rows of each table; nil = all.
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
			cell = 8 // sums are 64-bit integers, so that the order of addition does not matter
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
