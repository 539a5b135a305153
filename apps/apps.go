// Package apps defines what a machine-learning application implements, and the registry of applications. An application is plain arithmetic
// on rows: it does not know about machines, networks, tiers or time.
//
// An application has three sides. An App is what a worker runs. A Program is an App with what the job's controller needs before the first
// clock (the amount of work) and after the last (quality, and the model). A Kind is the application before it has seen data and
// hyper-parameters: it reads the input, cuts it into splits once, and creates Programs.
package apps

import (
	"io"

	"github.com/tierml/tierml/ps"
)

// App is one application with its hyper-parameters set.
type App interface {
	Name() string
	// Tables are the parameters that it trains; a TableID is an index into it. A table whose rows are mostly 0 is declared Sparse: an
	// application sees whole rows all the same.
	Tables() []ps.Table
	// LoadSplit reads what Prepare wrote for one split. Seed is the job's. A file that is damaged, truncated or of another split or version
	// is an error.
	LoadSplit(id ps.Split, r io.Reader, seed uint64) (Split, error)
}

// Late is an App that reports whether its rows should be read as late as possible: when a clock begins and the previous contribution
// counts, and not ahead. It is for steps that build on all splits' work in the previous clock: staleness costs them more than waiting.
type Late interface{ ReadLate() bool }

// Split is one piece of training data in memory. Its methods are called by one goroutine at a time.
type Split interface {
	// Needs lists the rows that Run(c) touches, each once, in any order, appended to keys.
	Needs(c ps.Clock, keys []ps.Key) []ps.Key
	// Run processes the batch of clock c, a pure function of (seed, split, clock) and the rows that it reads; it changes rows in place, and
	// the caller sends the differences. If evaluate is set it also measures the held-out examples with the rows as given.
	Run(c ps.Clock, rows Rows, evaluate bool) (Stats, error)
	// EvalNeeds lists the additional rows that Run needs if evaluate is set, each once, appended to keys. It may repeat rows of Needs(c):
	// the caller requests both sets and provides one copy of each row.
	EvalNeeds(keys []ps.Key) []ps.Key
}

// Rows are the working copies of the rows that a batch reads.
type Rows interface {
	// Row returns the working copy of a row; changing it is the update. The slice is valid until Run returns, and the same key returns the
	// same memory. Requesting any other row is a bug in the application and panics.
	//
	// The rows of an Int32 table are read and changed through Counts.
	Row(k ps.Key) []float32
}

// Counts returns the working copy of a row of an Int32 table, as integers. A count that overflows int32 at the servers is an error that
// ends the job, so counts are exact.
//
// State that a split must find again wherever it continues (such as a topic for each of its tokens) is a row that no other split touches,
// in a table with a row for each split: written in the same contribution as everything else of the clock, it moves and is rolled back with
// it.
func Counts(rows Rows, k ps.Key) []int32 { return ps.Ints(rows.Row(k)) }

// Gradient returns where a split accumulates its gradient for a row of a table with a rule (ps.Rule): zeros at first, as wide as the row.
// The servers sum it over the splits of a clock, without dividing by anything, and apply the rule when the clock is complete. Row returns
// the columns before the clock, which all splits share and must not change.
func Gradient(rows Rows, k ps.Key) []float32 {
	return rows.(interface{ Gradient(k ps.Key) []float32 }).Gradient(k)
}

// UnsetGradient is Gradient for a split that sets every element, so that nothing has to clear them first.
func UnsetGradient(rows Rows, k ps.Key) []float32 {
	if r, ok := rows.(interface{ UnsetGradient(k ps.Key) []float32 }); ok {
		return r.UnsetGradient(k)
	}
	return Gradient(rows, k)
}

// Stats are the measurements of a batch. Sums over splits are the clock's figures; for bit-identical sums, add in order of splits.
type Stats struct {
	Examples  int64
	Loss      float64 // sum over the batch's examples, each before its update
	TestCount int64
	TestLoss  float64
	// Work is in floating-point operations, by the application's own formula. It depends only on the split and the clock, never on the
	// values, and excludes evaluation, so that plans can use it.
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
