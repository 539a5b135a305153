package planner

import (
	"cmp"
	"time"

	"github.com/tierml/tierml/market"
)

// Forecast is what a run is expected to cost and how long it is expected to take.
type Forecast struct {
	Cost Range[market.USD]
	Time Range[time.Duration] // market time
	// Evictions are of machines.
	Evictions Range[int]
	// Basis says in words what the figures rest on, or why they are unknown.
	Basis string
}

// Range is a middle figure with the lower and upper ends of its middle nine tenths (P5, P50, P95).
type Range[T cmp.Ordered] struct {
	Known             bool
	Low, Middle, High T
	// HighOpen: some of the high figures are only lower bounds, so High may be higher.
	HighOpen bool
}

// Run is the result of one start.
type Run struct {
	Time     time.Duration
	Cost     market.USD
	Finished bool // before the known prices ended
	// Evictions is how many machines were taken.
	Evictions int
}

// Prediction is what one simulated run comes to, from the job's own start in the prices that it will meet. It knows the
// future of a recording; a forecast does not.
type Prediction struct {
	Run
	Basis   string   // on whose timing
	Skipped []string // steps of the script that are not simulated
}
