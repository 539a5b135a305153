package hazard

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/market"
)

var begin = time.Date(2021, 4, 1, 0, 0, 0, 0, time.UTC)

func pool(zone, kind string, perHour float64) Pool {
	p := market.Pool{Provider: "ec2", Region: "us-east-1", Zone: zone, Type: kind, Class: market.Spot}
	return Pool{Pool: p, Life: Constant(perHour), Places: 32}
}

// eventsOf returns all events of a time.
func eventsOf(h *Hazard, start time.Time, length time.Duration) (all []Event) {
	coming := h.Events(start, length)
	for e, more := coming.Next(); more; e, more = coming.Next() {
		all = append(all, e)
	}
	return all
}

// Whatever the mix of events, a machine in any slot is evicted at the requested rate.
func TestMachinesAreEvictedAtTheRate(t *testing.T) {
	for _, rate := range []float64{OfMonth(0.2), 0.036, 0.5} {
		h := &Hazard{Seed: 7, Pools: []Pool{pool("a", "c5.xlarge", rate)}}
		const length = 1000 * time.Hour
		counts := map[int]int{}
		starts := int(math.Ceil(1 / rate))
		for i := range starts {
			events := eventsOf(h, begin.Add(time.Duration(i)*time.Minute), length)
			for k := range events {
				for _, place := range []int{0, 31} {
					if events[k].Takes(place, 0) {
						counts[place]++
					}
				}
			}
		}
		for place, n := range counts {
			want := rate * length.Hours() * float64(starts)
			if math.Abs(float64(n)-want) > 5*math.Sqrt(want) {
				t.Errorf("rate %g: the machine in place %d is evicted %d times, want %.0f", rate, place, n, want)
			}
		}
	}
}

// The events of a lower rate, a shorter time or fewer pools are a subset of those of a higher rate, a longer time or more pools.
func TestEventsAreNested(t *testing.T) {
	events := func(length time.Duration, pools ...Pool) []Event {
		all := eventsOf(&Hazard{Seed: 3, Pools: pools}, begin, length)
		for i := range all {
			all[i].life = Life{}
		}
		return all
	}
	low := events(100*time.Hour, pool("a", "c5.xlarge", 0.01))
	for name, more := range map[string][]Event{
		"higher": events(100*time.Hour, pool("a", "c5.xlarge", 0.05)),
		"longer": events(300*time.Hour, pool("a", "c5.xlarge", 0.01)),
		"others": events(100*time.Hour, pool("a", "c5.large", 0.4), pool("a", "c5.xlarge", 0.01), pool("b", "c5.xlarge", 0.01)),
	} {
		for _, e := range low {
			if !slices.Contains(more, e) {
				t.Errorf("%s: an event at %s is missing", name, e.At)
			}
		}
		if len(more) <= len(low) {
			t.Errorf("%s: %d events, and %d", name, len(more), len(low))
		}
	}
	if again := events(100*time.Hour, pool("a", "c5.xlarge", 0.01)); !slices.Equal(again, low) || len(low) == 0 {
		t.Errorf("%d events, then %d others", len(low), len(again))
	}
}

// Some events hit all pools of a zone at once, and none those of another.
func TestZonesAreHitTogether(t *testing.T) {
	h := &Hazard{Seed: 3, Pools: []Pool{pool("a", "c5.large", 0.1), pool("a", "c5.xlarge", 0.1), pool("b", "c5.large", 0.1)}}
	together := map[string]int{}
	all := eventsOf(h, begin, 3000*time.Hour)
	for i := range all[1:] {
		if a, b := all[i], all[i+1]; a.At.Equal(b.At) {
			together[a.Pool.Zone+b.Pool.Zone]++
		}
	}
	if want := 0.05 * (2.0 / 3) * 3 * 0.1 * 3000; together["aa"] < int(want/2) || together["aa"] > int(want*2) || len(together) != 1 {
		t.Errorf("%v events together, want about %.0f", together, want)
	}
}

func TestNothingIsEvictedWithoutAHazard(t *testing.T) {
	var h *Hazard
	if _, more := h.Events(begin, time.Hour).Next(); more {
		t.Error("no hazard, and events")
	}
}

// Draws differ from each other, and are reproducible. Timeless ones come equally long after any start.
func TestDraws(t *testing.T) {
	h := &Hazard{Seed: 1, Pools: []Pool{{Pool: market.Pool{Type: "a", Zone: "z"}, Life: Constant(0.1), Places: 8}}}
	start, length := time.Unix(0, 0), 100*time.Hour
	after := func(h *Hazard, start time.Time) (out []time.Duration) {
		for _, e := range eventsOf(h, start, length) {
			out = append(out, e.At.Sub(start))
		}
		return out
	}
	if h.Draw(0) != h || (*Hazard)(nil).Draw(3) != nil {
		t.Error("draw 0 is another one")
	}
	own, third := after(h, start), after(h.Draw(3), start)
	if len(own) == 0 || slices.Equal(own, third) || !slices.Equal(third, after(h.Draw(3), start)) {
		t.Errorf("%v, draw 3 %v", own, third)
	}
	if later := after(h, start.Add(time.Hour)); slices.Equal(own, later) {
		t.Error("an hour later the same happens")
	}
	timeless := *h
	timeless.Timeless = true
	if a, b := after(timeless.Draw(3), start), after(timeless.Draw(3), start.Add(time.Hour)); len(a) == 0 || !slices.Equal(a, b) {
		t.Errorf("timeless: %v, an hour later %v", a, b)
	}
}
