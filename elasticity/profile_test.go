package elasticity

import (
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
)

// checkProfile wants a line with what each partition's owner takes, which is the same wherever it is.
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

// What serving takes is measured through evictions, moves and roll-backs, and written down when it is known.
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
