package planner

import (
	"cmp"
	"time"

	"github.com/tierml/tierml/market"
)

// Forecast is the expected cost and duration of a run.
type Forecast struct {
	Cost Range[market.USD]
	Time Range[time.Duration] // market time
	// CostRecord and TimeRecord count the forecasts that could have been made at past starts.
	CostRecord, TimeRecord Record
	Level                  Level // at the start
	// Evictions counts machines.
	Evictions Range[int]
	// Basis explains what the figures are based on, or why they are unknown.
	Basis string
}

// Record counts plans with a known result, and those that ended inside their range.
type Record struct{ Plans, Inside int }

// Range is the expected value, the mean, with bounds that hold nine tenths of the results.
type Range[T cmp.Ordered] struct {
	Known             bool
	Low, Middle, High T
	// HighOpen reports that some high figures are only lower bounds, so that High may be too low.
	HighOpen bool
}

// Run is the result of one start.
type Run struct {
	Start    time.Time
	Level    Level // at Start
	Time     time.Duration
	Cost     market.USD
	Finished bool // before the known prices ended, or far enough to extrapolate its figures (Paced)
	Paced    bool
	// Evictions is the number of evicted machines.
	Evictions int
	Bought    string  // kinds of machines, by market.Kinds
	Done      float64 // share of the work; in predictions only
	Why       string  // why it ended early; empty = it did not
}

// Prediction is the result of one simulated run, from the job's own start at the prices that it will meet. Unlike a forecast, it knows the
// future of a recording.
type Prediction struct {
	Run
	Basis   string   // whose timing it assumes
	Skipped []string // unsimulated steps of the script
	// Calm omits evictions that prices do not show, as on the fake cloud. Forecasts include them.
	Calm bool
}
