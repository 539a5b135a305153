// Package apps is what a machine-learning application implements, and the registry of those that exist.
// An application is plain arithmetic on rows: it does not know about machines, networks, tiers or time.
//
// There are three sides to it. An App is what a worker runs. A Program is an App with what the job's
// controller asks before the first clock (how much work is it?) and after the last (how good is it? give me
// the model). A Kind is the application before it has seen data and hyper-parameters: it reads the input,
// cuts it into splits once, and makes Programs.
package apps

import (
	"io"

	"github.com/tierml/tierml/ps"
)

// App is one application with its hyper-parameters set.
type App interface {
	Name() string
	// Tables are the parameters that it trains; a TableID is an index into them. A table whose rows are mostly 0
	// declares them Sparse: an application sees whole rows all the same.
	Tables() []ps.Table
	// LoadSplit reads what Prepare wrote for one split. Seed is the job's. A file that is damaged, cut short
	// or of another split or version is an error.
	LoadSplit(id ps.Split, r io.Reader, seed uint64) (Split, error)
}

// Late is an App that reports whether its rows are to be read as late as possible: when a clock begins and the
// contribution of the one before counts, and not ahead. It is for steps that build on the work of all splits in the clock
// before: staleness costs them more than waiting does.
type Late interface{ ReadLate() bool }

// Split is one piece of training data in memory. Its methods are called by one goroutine at a time.
type Split interface {
	// Needs lists the rows that Run(c) touches, each once, in any order, appended to keys.
	Needs(c ps.Clock, keys []ps.Key) []ps.Key
	// Run processes the batch of clock c, a pure function of (seed, split, clock) and the rows that it
	// reads; it changes rows in place, and the caller sends the differences. When evaluate is set it also
	// measures the held-out examples with the rows as they were given.
	Run(c ps.Clock, rows Rows, evaluate bool) (Stats, error)
	// EvalNeeds lists the rows that Run needs besides when evaluate is set, each once, appended to keys. It
	// may list rows that Needs(c) lists too: the caller asks for both sets and gives each row one copy.
	EvalNeeds(keys []ps.Key) []ps.Key
}

// Rows are the working copies of the rows that a batch reads.
type Rows interface {
	// Row returns the working copy of a row; changing it is the update. The slice stays good until Run
	// returns, and the same key gives the same memory. Any other row is a bug in the
	// application and panics.
	//
	// The rows of an Int32 table are read and changed through Counts.
	Row(k ps.Key) []float32
}

// Counts returns the working copy of a row of an Int32 table: what Row gives, as integers. A count that leaves the range
// of int32 at the servers is an error that ends the job, so counts are exact or not there at all.
//
// A state of its own that a split must find again wherever it continues (such as a topic for each of its tokens) is a
// row that no other split touches, in a table with a row for each split: written in the same contribution as
// everything else of the clock, it moves and is rolled back with it.
func Counts(rows Rows, k ps.Key) []int32 { return ps.Ints(rows.Row(k)) }

// Gradient returns where a split adds up its gradient for a row of a table with a rule (ps.Rule): zeros at first, as wide as the
// row. The servers sum it over the splits of a clock, without dividing by anything, and apply the rule when the clock is complete.
// Row gives the columns before the clock, which are all splits' and must not be changed.
func Gradient(rows Rows, k ps.Key) []float32 {
	return rows.(interface{ Gradient(k ps.Key) []float32 }).Gradient(k)
}

// Stats is what a batch measured. Sums over splits are the clock's figures; to get the same sums bit for bit,
// add in order of splits.
type Stats struct {
	Examples  int64
	Loss      float64 // sum over the batch's examples, before each one's update
	TestCount int64
	TestLoss  float64
	// Work is in floating-point operations, by the application's own formula. It depends on the split and
	// the clock alone, never on the values, and leaves measuring out, so that it can be planned with.
	Work float64
}

// Add returns the sum of two measurements.
func (s Stats) Add(t Stats) Stats {
	return Stats{
		Examples:  s.Examples + t.Examples,
		Loss:      s.Loss + t.Loss,
		TestCount: s.TestCount + t.TestCount,
		TestLoss:  s.TestLoss + t.TestLoss,
		Work:      s.Work + t.Work,
	}
}
