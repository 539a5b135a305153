// Package apps is what a machine-learning application implements, and the registry of those that exist.
// An application is plain arithmetic on rows: it does not know about machines, networks, tiers or time.
package apps

import (
	"io"

	"github.com/tierml/tierml/ps"
)

// App is one application with its hyper-parameters set.
type App interface {
	Name() string
	// Tables are the parameters that it trains; a TableID is an index into them.
	Tables() []ps.Table
	// LoadSplit reads what Prepare wrote for one split. Seed is the job's.
	LoadSplit(id ps.Split, r io.Reader, seed uint64) (Split, error)
}

// Split is one piece of training data in memory. Its methods are called by one goroutine at a time.
type Split interface {
	// Needs lists the rows that Run(c) touches, each once, in any order, appended to keys.
	Needs(c ps.Clock, keys []ps.Key) []ps.Key
	// Run processes the batch of clock c, a pure function of (seed, split, clock) and the rows that it
	// reads; it changes rows in place, and the caller sends the differences. When evaluate is set it also
	// measures the held-out examples with the rows as they were given.
	Run(c ps.Clock, rows Rows, evaluate bool) (Stats, error)
	// EvalNeeds lists further rows that Run needs when evaluate is set.
	EvalNeeds(keys []ps.Key) []ps.Key
}

// Rows are the working copies of the rows that a batch asked for.
type Rows interface {
	// Row gives the working copy of a row; changing it is the update. A row that was not asked for is a
	// bug in the application and panics.
	Row(k ps.Key) []float32
}

// Stats is what a batch measured. Sums over splits are the clock's figures.
type Stats struct {
	Examples  int64
	Loss      float64 // sum over the batch's examples, before each one's update
	TestCount int64
	TestLoss  float64
	Work      float64 // floating-point operations, by the application's own formula
}
