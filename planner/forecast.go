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
	// CostRecord and TimeRecord are of the forecasts that could have been made at the past starts.
	CostRecord, TimeRecord Record
	Level                  Level // at the start
	// Evictions are of machines.
	Evictions Range[int]
	// Basis says in words what the figures rest on, or why they are unknown.
	Basis string
}

// Record is how many plans there were whose result is known, and how many ended inside their range.
type Record struct{ Plans, Inside int }

// Range is what is expected, the mean, with the lower and upper ends of what holds nine tenths of the results.
type Range[T cmp.Ordered] struct {
	Known             bool
	Low, Middle, High T
	// HighOpen: some of the high figures are only lower bounds, so High may be higher.
	HighOpen bool
}

// Run is the result of one start.
type Run struct {
	Start    time.Time
	Level    Level // at Start
	Time     time.Duration
	Cost     market.USD
	Finished bool // before the known prices ended, or it was so far then that its figures follow from its pace (Paced)
	Paced    bool
	// Evictions is how many machines were taken.
	Evictions int
	Bought    string  // kinds of machines, by market.Kinds
	Done      float64 // share of the work; of predictions alone
	Why       string  // it ended before it was done; empty = it did not
}

// Prediction is the result of one simulated run, from the job's own start in the prices that it will meet. It knows the
// future of a recording; a forecast does not.
type Prediction struct {
	Run
	Basis   string   // on whose timing
	Skipped []string // steps of the script that are not simulated
	// Calm: evictions that prices do not show are left out, as on the fake cloud. The forecast has them.
	Calm bool
}
