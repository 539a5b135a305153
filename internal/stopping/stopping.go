// Package stopping decides when training is good enough. It watches the figure by which people judge a model (lower is
// better): that of held-out examples, or of the training examples when none are held out. The same rules serve training
// in one process and on machines. It reads no clock and knows no application.
package stopping

import (
	"fmt"
	"math"
	"time"
)

// Rules say when to stop; whichever holds first. The zero value never stops.
type Rules struct {
	// Loss stops at the first figure at or below it. Nil: no such rule.
	Loss *float64
	// MinImprovement and Patience stop when the figure has not become smaller by this share for more than so many
	// clocks. 0: no such rule.
	MinImprovement float64
	Patience       int64
	// Time stops after so much training. 0: no such rule.
	Time time.Duration
}

// Any reports whether there is any rule.
func (r Rules) Any() bool { return r.Loss != nil || r.MinImprovement > 0 || r.Time > 0 }

// Watch is what the rules remember of one training. The zero value has seen nothing.
type Watch struct {
	seen  bool
	best  float64 // the last figure that was a sufficient improvement
	since int64   // and its clock
}

// Elapsed applies the rule of time alone. An empty answer means: go on.
func (r Rules) Elapsed(elapsed time.Duration) (why string) {
	if r.Time > 0 && elapsed >= r.Time {
		return fmt.Sprintf("the training time of %v is over", r.Time)
	}
	return ""
}

// Measured takes the figure of a clock in; clocks ascend. An empty answer means: go on. Name is what people call the
// figure.
func (w *Watch) Measured(r Rules, clock int64, name string, figure float64) (why string) {
	if math.IsNaN(figure) {
		return ""
	}
	if r.Loss != nil && figure <= *r.Loss {
		return fmt.Sprintf("%s %.6g at clock %d is at or below %v", name, figure, clock, *r.Loss)
	}
	if r.MinImprovement <= 0 {
		return ""
	}
	if !w.seen || figure < w.best-r.MinImprovement*math.Abs(w.best) {
		w.seen, w.best, w.since = true, figure, clock
		return ""
	}
	if clock-w.since <= r.Patience {
		return ""
	}
	return fmt.Sprintf("%s %.6g at clock %d is not %v%% below the %.6g of clock %d", name, figure, clock,
		100*r.MinImprovement, w.best, w.since)
}
