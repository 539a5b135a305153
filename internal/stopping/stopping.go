// Package stopping decides when training is good enough. It watches the metric by which people judge a model (lower is better), on held-out
// examples, or on the training examples if none are held out. The same rules serve training in one process and on machines. It reads no
// clock and knows no application.
package stopping

import (
	"fmt"
	"math"
	"time"
)

// Rules say when to stop: at the first that holds. The zero value never stops.
type Rules struct {
	// Loss stops at the first value at or below it. Nil: no such rule.
	Loss *float64
	// MinImprovement and Patience stop when the metric has not decreased by this share for more than that many clocks. 0: no such rule.
	MinImprovement float64
	Patience       int64
	// Time stops after this much training. 0: no such rule.
	Time time.Duration
}

// Any reports whether there is any rule.
func (r Rules) Any() bool { return r.Loss != nil || r.MinImprovement > 0 || r.Time > 0 }

// Watch is the state of the rules during one training. The zero value has seen nothing.
type Watch struct {
	seen  bool
	best  float64 // the last figure that was a sufficient improvement
	since int64   // and its clock
}

// Elapsed applies only the rule about time. An empty answer means: continue.
func (r Rules) Elapsed(elapsed time.Duration) (why string) {
	if r.Time > 0 && elapsed >= r.Time {
		return fmt.Sprintf("the training time of %v is over", r.Time)
	}
	return ""
}

// Measured records the metric at a clock; clocks ascend. An empty answer means: continue. Name is what people call the metric.
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

// Trend remembers the values of a training, to report whether it ended too early. The zero value has seen none.
type Trend struct {
	clocks []int64
	least  []float64 // the smallest value up to each clock
}

// Measured records the metric at a clock; clocks ascend.
func (t *Trend) Measured(clock int64, figure float64) {
	if math.IsNaN(figure) {
		return
	}
	if n := len(t.least); n > 0 {
		figure = min(figure, t.least[n-1])
	}
	t.clocks, t.least = append(t.clocks, clock), append(t.least, figure)
}

// stillGained is the share by which the last quarter of the clocks must have reduced a metric for more clocks to be worth mentioning.
const stillGained = 0.005

// Gained returns the share by which the last quarter of the clocks reduced the metric, and whether more clocks would probably help as well.
func (t *Trend) Gained() (share float64, more bool) {
	n := len(t.least)
	if n < 4 {
		return 0, false
	}
	last, before := t.least[n-1], t.least[0]
	for i, clock := range t.clocks {
		if 4*clock <= 3*t.clocks[n-1] {
			before = t.least[i]
		}
	}
	if before == 0 {
		return 0, false
	}
	share = (before - last) / math.Abs(before)
	return share, share > stillGained
}
