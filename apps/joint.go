package apps

import (
	"github.com/tierml/tierml/internal/vector/fast"
	"github.com/tierml/tierml/ps"
)

// Joining is an App whose splits can work together on one copy of their rows, where the result need not be the same bit
// for bit: all splits of a worker are then one piece of work, which is laid out for its caches and its cores, and the
// worker sends one difference for each row.
type Joining interface {
	App
	// Join takes splits of LoadSplit, which it uses alone meanwhile, how many threads to work with, and the job's
	// staleness.
	Join(splits []Split, threads int, staleness ps.Clock) Joint
}

// Joint is some splits of a worker as one piece of work. Its methods are called by one goroutine at a time.
type Joint interface {
	// Needs and EvalNeeds list the rows of all of the splits, as theirs do.
	Needs(c ps.Clock, keys []ps.Key) []ps.Key
	EvalNeeds(keys []ps.Key) []ps.Key
	// Run does the work of a clock of all of the splits, and returns what each measured, in their order. What is unknown
	// apart, such as the loss of steps that take turns, is shared out by examples.
	Run(c ps.Clock, rows SharedRows, evaluate bool) ([]Stats, error)
	// Weights says by how much each change of a table's rows counts in the clock that was Run last, by row; nil: all
	// whole. Changes of other workers are added to it, so an application whose steps follow each other here may let
	// less than all of it count.
	Weights(t ps.TableID) []float32
}

// SharedRows are the rows that a Joint reads.
type SharedRows interface {
	// Table returns a table's rows by their number; changing one is the update. Other rows are nil. Each row
	// has room for Room(columns) numbers (its capacity): those behind its columns are 0 and must stay so. The rows, but
	// not the list, stay good until Run returns.
	Table(t ps.TableID) [][]float32
}

// Room returns how many numbers a shared row takes: each begins at a cache line.
func Room(columns int) int { return fast.Stride(columns) }
