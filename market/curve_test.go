package market

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestReplayedView: a view that gets its history's extension point by point equals a separate history of the same points, even though it
// shares curves that know the future.
func TestReplayedView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := drawPoints(t)
		whole := NewHistory(points)
		points = whole.Points(time.Time{}, at(1000))
		minutes.MTTF(whole, at(149), bid) // the curve exists before the view
		view := whole.Until(at(rapid.IntRange(-5, 150).Draw(t, "from")))
		for n := view.Len(); n < len(points); n++ {
			now := points[n].At
			if rapid.Bool().Draw(t, "late") {
				now = now.Add(30 * time.Second) // the view does not know yet
			} else if err := view.Append(points[n]); err != nil {
				t.Fatal(err)
			}
			same(t, view, NewHistory(points[:view.Len()]), now)
			if view.Len() <= n {
				if err := view.Append(points[n]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if view.Len() > 0 && &view.points[0] != &whole.points[0] {
			t.Fatal("the view has made a copy")
		}
		other := whole.Until(at(75))
		if err := other.Append(PricePoint{at(200), bid / 2}); err != nil {
			t.Fatal(err)
		}
		same(t, other, NewHistory(other.Points(time.Time{}, at(1000))), at(210))
		if last, ok := whole.Last(); ok && last.At.Equal(at(200)) {
			t.Fatal("what a view appends is in its history")
		}
	})
}

// TestGrowingHistory: curves continue as points come.
func TestGrowingHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := NewHistory(drawPoints(t)).Points(time.Time{}, at(1000))
		grown := NewHistory(nil)
		for i, p := range points {
			if err := grown.Append(p); err != nil {
				t.Fatal(err)
			}
			same(t, grown, NewHistory(points[:i+1]), p.At.Add(time.Minute))
		}
	})
}

func same(t *rapid.T, h, want *History, now time.Time) {
	t.Helper()
	if a, b := minutes.MTTF(h, now, bid), minutes.MTTF(want, now, bid); a != b {
		t.Fatalf("MTTF %+v, want %+v", a, b)
	}
	p, known := minutes.EvictionProbability(h, now, bid, 7*time.Minute)
	if q, k := minutes.EvictionProbability(want, now, bid, 7*time.Minute); p != q || known != k {
		t.Fatalf("probability %g %v, want %g %v", p, known, q, k)
	}
	for _, from := range []time.Time{at(-100), now.Add(-20 * time.Minute), now, now.Add(time.Hour)} {
		plain := &History{points: want.points} // has no curves
		a, ok := h.FirstAbove(from, bid)
		if b, k := plain.FirstAbove(from, bid); !a.Equal(b) || ok != k {
			t.Fatalf("first above from %s: %s %v, want %s %v", from, a, ok, b, k)
		}
	}
}

// TestProbabilityAgainstDefinition counts minutes.
func TestProbabilityAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := NewHistory(drawPoints(t))
		now := rapid.IntRange(0, 150).Draw(t, "now")
		horizon := rapid.IntRange(1, 100).Draw(t, "horizon")
		e := Estimator{Lookback: time.Duration(rapid.IntRange(1, 150).Draw(t, "lookback")) * time.Minute, Prior: 10 * time.Minute}
		estimate := e.MTTF(h, at(now), bid)
		if !estimate.Known || estimate.Censored || estimate.Mean == 0 {
			return
		}
		var all, soonAll, toldAll, soon, told float64
		price, _ := h.At(at(now))
		for m := now - int(e.Lookback/time.Minute); m < now; m++ {
			past, known := h.At(at(m))
			if !known || past > bid {
				continue
			}
			all++
			crossing, crossed := h.Until(at(now)).FirstAbove(at(m), bid)
			var s, k float64
			if crossed && crossing.Sub(at(m)) <= time.Duration(horizon)*time.Minute {
				s = 1
			}
			if crossed || m+1+horizon <= now {
				k = 1
			}
			soonAll, toldAll = soonAll+s, toldAll+k
			if slowBand(past) == slowBand(price) {
				soon, told = soon+s, told+k
			}
		}
		weight := 10 / all
		want := (soon + weight*soonAll) / (told + weight*toldAll)
		got, _ := e.EvictionProbability(h, at(now), bid, time.Duration(horizon)*time.Minute)
		if math.Abs(got-want) > 1e-9 && !(math.IsNaN(want) && math.IsNaN(got)) {
			t.Fatalf("%g, by definition %g", got, want)
		}
	})
}
