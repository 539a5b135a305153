// Package ps is the parameter server's pure core: tables, rows, updates, clocks, partitions, cuts and routes. A Shard is one
// partition at its owner; a Backup is one at its BackupPS. Both are plain values with methods: no goroutine, lock, socket or
// clock. ps/server, ps/client and ps/wire put them on a network. It knows nothing about machines and ownership (tiers).
// docs/training.md is its contract.
package ps

import "fmt"

// Clock is one round of work: every split processes one batch once. The first clock is 1; clock 0 is
// the state before any work.
type Clock int64

// Unbounded is the staleness of ASP: no read waits, except as described at MostAhead and maxAhead. Owners still keep the work of each
// incomplete clock separate, so their memory grows with the distance between the fastest and the slowest split.
const Unbounded Clock = 1 << 62

// MostAhead bounds staleness in jobs whose tables have rules, under ASP too. A rule runs when a clock is complete, so a worker that is n
// clocks ahead computes its next n gradients with the same parameters: steps that are n times too long. All splits do the same number of
// clocks, so the slowest determines when a job ends, and a greater lead gains next to nothing. At 1 the default optimizers for stale reads
// (apps.Stale) end within 0.01 of BSP's accuracy, even after few passes; at 3 dnn did so after 30 passes, but not after 6.
const MostAhead Clock = 1

// LastClock is later than any run gets, and leaves room for arithmetic.
const LastClock Clock = 1 << 60

// Generation grows with each roll-back, and only then; every data-plane message includes it.
type Generation uint64

// Incarnation is one life of one worker process.
type Incarnation uint64

// Partition is a fixed set of rows of every table of a job, by range or by hash: the unit that is owned, moved and
// backed up. Their number is fixed at job start.
type Partition uint32

// Split is a fixed piece of the training data: the unit assigned to workers.
type Split uint32

// ServerID names a server; it is the instance id of the machine it runs on.
type ServerID string

// TableID is a table's index in Schema.Tables.
type TableID uint16

// RowID is a row of a table.
type RowID uint64

// Key is a row of a table of the job.
type Key struct {
	Table TableID
	Row   RowID
}

// Init sets a row's values before any update.
type Init struct {
	// Uniform draws each value from [Low, High), by a hash of (seed, table, row, column); zero rows if both are 0.
	Low, High float32
}

// Table is a named matrix of parameters, or of counts.
type Table struct {
	Name string
	Kind Kind
	Rows uint64
	Cols int
	Init Init // of dense Float32 tables; counts and sparse rows begin at 0
	// Sparse rows are stored and sent as their nonzero cells (sparse.go). Applications see whole rows.
	Sparse bool
	// Ranged divides the rows evenly into one range per partition. Otherwise rows are spread by a hash.
	Ranged bool
	// Rule is what the servers do with updates that are gradients; without one they are differences, and add up.
	Rule Rule
}

// Width returns the number of cells of a stored dense row: its columns and its rule's state.
func (t *Table) Width() int {
	if t.Rule.Name == Add {
		return t.Cols
	}
	return t.Cols*(1+t.Rule.slots()) + 1
}

// Limits on what a server keeps for each partition, and on lists in messages.
const (
	MaxPartitions       = 1 << 14
	MaxSplits           = 1 << 17
	MaxStaleness  Clock = 1 << 12 // of SSP
)

// MaxRowBytes bounds the size of a row, or its sum, in transit: more does not fit a frame, and rows are not split.
const MaxRowBytes = 63 << 20

// maxRows limits rows to the size of a key on the wire.
const maxRows = 1 << 48

// Bound returns the effective staleness of reads: Staleness, or less if a table has a rule (MostAhead).
func (s *Schema) Bound() Clock {
	for i := range s.Tables {
		if s.Tables[i].Rule.Name != Add {
			return min(s.Staleness, MostAhead)
		}
	}
	return s.Staleness
}

// Check reports whether the schema can be served. All code that creates schemas calls it.
func (s *Schema) Check() error {
	if s.Partitions > MaxPartitions || s.Splits > MaxSplits || s.Staleness > MaxStaleness && s.Staleness != Unbounded {
		return invalid("%d partitions, %d splits, staleness %d; the most are %d, %d and %d", s.Partitions, s.Splits, s.Staleness,
			MaxPartitions, MaxSplits, MaxStaleness)
	}
	if s.Partitions < 1 || s.Splits < 1 || s.Staleness < 0 || s.Deterministic && s.Staleness > 0 {
		return invalid("%d partitions, %d splits, staleness %d, deterministic %v", s.Partitions, s.Splits, s.Staleness, s.Deterministic)
	}
	names := map[string]bool{}
	for i := range s.Tables {
		t := &s.Tables[i]
		if err := t.check(); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
		if bytes := max(deliveryBytes(t.Width()+1), s.sumBytes(t.Cols+1)); bytes > MaxRowBytes {
			return invalid("table %s: a row of %d columns takes %d MB on its way to a server, and the most is %d MB", t.Name, t.Cols,
				(bytes+1<<20-1)>>20, MaxRowBytes>>20)
		}
		if names[t.Name] {
			return invalid("two tables are named %s", t.Name)
		}
		names[t.Name] = true
	}
	return nil
}

func (t *Table) check() error {
	switch first := t.Init != (Init{}); {
	case t.Cols < 1 || t.Rows < 1 || t.Rows > maxRows:
		return invalid("%d rows of %d columns", t.Rows, t.Cols)
	case t.Kind > Int32:
		return invalid("%v is unknown", t.Kind)
	case first && (t.Kind == Int32 || t.Sparse):
		return invalid("counts and sparse rows begin at 0")
	case t.Rule.Name != Add && (t.Kind == Int32 || t.Sparse):
		return invalid("rule %q is for dense float32 rows", t.Rule.Name)
	}
	return t.Rule.Check()
}

// Schema is what all processes of a job agree on before it starts.
type Schema struct {
	Tables     []Table
	Partitions int
	Splits     int
	Staleness  Clock // s: work of clock c reads all updates through clock c-s-1; 0 is BSP, Unbounded ASP
	Seed       uint64
	// Deterministic sums a row's updates of a clock in 64-bit fixed point, so that their order does not matter, and reads see only the
	// folded state. It needs Staleness 0.
	Deterministic bool
}

// Route has the owner and the backup of each partition. Index: Partition.
type Route struct {
	Version uint64 // grows with every change
	Owner   []ServerID
	Backup  []ServerID
}
