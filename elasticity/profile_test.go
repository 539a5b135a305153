package elasticity

import (
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// checkProfile requires a line with each partition's serving load, which is the same wherever it is.
func checkProfile(t *testing.T, w *world, e journal.Entry) {
	t.Helper()
	d, err := e.ProfileDetails()
	if err != nil {
		t.Fatal(err)
	}
	var want []int64
	for p := range ps.Partition(w.shape.partitions) {
		want = append(want, servingOf(p).Nanoseconds())
	}
	if !slices.Equal(d.Serving, want) || e.Seconds <= 0 {
		t.Errorf("profile %v of clocks of %v s as of clock %d, want %v", d.Serving, e.Seconds, e.Clock, want)
	}
}

// The serving load is measured through evictions, moves and roll-backs, and recorded when it is known.
func TestServingIsProfiled(t *testing.T) {
	s := six()
	s.clocks = 90
	schedule(t, s, func(w *world) func() bool {
		w.settled(func() {
			w.kill(w.spot()[0])
			w.after(1500*time.Millisecond, func() { w.evict(2*time.Second, w.spot()[:2]...) })
		})
		return func() bool {
			for _, e := range w.lines(journal.Profile) {
				checkProfile(t, w, e)
			}
			return w.count(journal.Profile) >= 1
		}
	})
}

// A controller that takes over a run passes on the profile in the journal: its predecessor may not have done that.
func TestASuccessorPassesTheProfileOn(t *testing.T) {
	c := newWorld(1, six()).config()
	c.Past = &Past{Log: Log{Generation: 1, Profile: tiers.Profile{Clock: time.Second, Serving: make([]time.Duration, c.Job.Schema.Partitions)}}}
	var passed []Profiled
	for _, a := range New(c).Step(epoch, Wake{}) {
		if a, ok := a.(Profiled); ok {
			passed = append(passed, a)
		}
	}
	if len(passed) != 1 || !passed[0].Profile.Equal(c.Past.Profile) {
		t.Errorf("passed on: %+v", passed)
	}
}
