package apps

import (
	"github.com/tierml/tierml/internal/vector/fast"
	"github.com/tierml/tierml/ps"
)

// Sharing is a Split that can work on rows together with other splits, where the result need not be the same bit for bit:
// all splits of a worker then change one copy, one after the other, which saves a copy and a difference of every row
// for every split. It is for applications whose updates are as good on top of others'.
type Sharing interface {
	Split
	// RunShared does what Run does. The rows hold what splits before this one have changed in the clock, and the last bits
	// of the result may depend on the processor.
	RunShared(c ps.Clock, rows SharedRows, evaluate bool) (Stats, error)
}

// SharedRows are the rows that the splits of a worker asked for.
type SharedRows interface {
	// Table gives a table's rows by their number; changing one is the update. Those that nobody asked for are nil. Each row
	// has room for Room(columns) numbers (its capacity): those behind its columns are 0 and must stay so. The rows, but
	// not the list, stay good until RunShared returns.
	Table(t ps.TableID) [][]float32
}

// Room is how many numbers a shared row takes: each begins at a cache line.
func Room(columns int) int { return fast.Stride(columns) }
