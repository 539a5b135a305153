package agent

import (
	"slices"
	"testing"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// A worker that passes over other splits gives one away only after it has passed the worker's current clock: otherwise its new owner would
// restart the clock, and the others wait for that. A parked worker gives it away as it is.
func TestGivenAwayBehind(t *testing.T) {
	for _, c := range []struct {
		passes, parked bool
		want           ps.Clock
	}{{true, false, 8}, {true, true, 7}, {false, false, 7}} {
		var released []tiers.SplitAt
		w := &Worker{Passes: c.passes, Until: 100, Last: 100, report: func(r tiers.Report) {
			if a, ok := r.(tiers.Answer); ok {
				released = append(released, a.Result.(tiers.Released).Splits...)
			}
		}}
		w.add(0, 7, false)
		do := func(want ...ps.Split) {
			t.Helper()
			r := w.Choose()
			if r == nil || !slices.Equal(r.Splits, want) || !w.Begin(r) || !w.Computed(r) {
				t.Fatalf("%+v: round %+v, want splits %v", c, r, want)
			}
			w.Counted(r, nil)
		}
		own := w.Choose()
		w.Begin(own)
		if _, err := w.assign([]tiers.SplitAt{{Split: 3, Clock: 7}}); err != nil {
			t.Fatal(err)
		}
		w.release(1, []ps.Split{3}, false)
		if c.passes == (len(released) > 0) {
			t.Fatalf("%+v: at once %v is released", c, released)
		}
		w.Computed(own)
		w.Counted(own, nil)
		if c.parked {
			w.park()
		} else if c.passes {
			do(3)
		}
		if !slices.Equal(released, []tiers.SplitAt{{Split: 3, Clock: c.want}}) {
			t.Errorf("%+v: %v is released", c, released)
		}
		if !c.parked {
			do(0)
		}
	}
}
