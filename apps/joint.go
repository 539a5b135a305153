package apps

import (
	"github.com/tierml/tierml/internal/vector/fast"
	"github.com/tierml/tierml/ps"
)

// Joining is an App whose splits can share one copy of their rows, if results need not be bit-for-bit the same: all splits of a worker are
// one piece of work, arranged for its caches and cores, and the worker sends one difference per row.
type Joining interface {
	App
	// Join combines splits from LoadSplit, which nobody else may use meanwhile. It takes the number of threads and the job's staleness.
	Join(splits []Split, threads int, staleness ps.Clock) Joint
}

// Joint is several splits of a worker as one piece of work. Its methods are called by one goroutine at a time.
type Joint interface {
	// Needs and EvalNeeds list the rows of all splits.
	Needs(c ps.Clock, keys []ps.Key) []ps.Key
	EvalNeeds(keys []ps.Key) []ps.Key
	// Run does one clock of work for all splits, and returns the statistics of each, in order. Statistics of joint steps, such as the loss,
	// are divided by examples.
	Run(c ps.Clock, rows SharedRows, evaluate bool) ([]Stats, error)
	// Weights returns a factor for each row's change in the last clock that was Run; nil = 1. Other workers' changes are added, so an
	// application with sequential steps may scale its own down.
	Weights(t ps.TableID) []float32
}

// SharedRows are the rows that a Joint reads and changes.
type SharedRows interface {
	// Table returns a table's rows by number; changing one is the update. Other rows are nil. Each row has a capacity of Room(columns)
	// numbers: those after its columns are 0 and must stay so. The rows, but not the list, remain valid until Run returns.
	Table(t ps.TableID) [][]float32
}

// Room returns the size of a shared row: each starts at a cache line.
func Room(columns int) int { return fast.Stride(columns) }
