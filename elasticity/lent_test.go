package elasticity

import (
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// A job whose single reliable machine serves is lent another one: its partitions spread over both, nothing is repeated, and when it is
// taken back they return. A controller that takes over the run meanwhile keeps it.
func TestALentMachine(t *testing.T) {
	for _, killed := range []bool{false, true} {
		s := six()
		s.transient = 1
		schedule(t, s, func(w *world) func() bool {
			w.windows = true
			serving := func() int { return len(holdersOf(w.ctrl.training.Layout.Route.Owner)) }
			stands := func(n int) func() bool {
				return func() bool {
					return !w.absent && len(w.ctrl.training.Layout.Moves) == 0 && len(w.machinesOf(market.OnDemand)) == n && serving() == n && w.ctrl.scaled()
				}
			}
			done := false
			lend := func(n int) { w.step(Preferred{Preference: tiers.Preference{More: n, Why: "the host is busy"}}) }
			w.when(func() bool { return w.ctrl.training.Clocks.Done >= 3 && w.grown(1) && stands(1)() }, func() {
				lend(1)
				w.when(stands(2), func() {
					back := func() {
						lend(0)
						w.when(stands(1), func() { done = true })
					}
					if !killed {
						back()
						return
					}
					w.killController(200 * time.Millisecond)
					w.when(func() bool { return w.count(journal.TakeOver) == 1 && stands(2)() }, back)
				})
			})
			if !killed {
				w.neverBack()
			}
			return func() bool {
				why := 0
				for _, e := range w.lines(journal.Scale) {
					if e.Why == "the host is busy" {
						why++
					}
				}
				return done && why == 2
			}
		})
	}
}

// A named machine is released when there is one too many: the job continues with the lent one.
func TestALentMachineTakesAnothersPlace(t *testing.T) {
	s := six()
	s.transient = 1
	schedule(t, s, func(w *world) func() bool {
		w.windows = true
		stands := func(n int) bool {
			return len(w.ctrl.training.Layout.Moves) == 0 && len(w.machinesOf(market.OnDemand)) == n && w.ctrl.scaled()
		}
		done := false
		w.when(func() bool { return w.ctrl.training.Clocks.Done >= 3 && w.grown(1) && stands(1) }, func() {
			first := w.machinesOf(market.OnDemand)[0]
			w.step(Preferred{Preference: tiers.Preference{More: 1, Leave: first}})
			w.when(func() bool { return stands(2) }, func() {
				w.step(Preferred{Preference: tiers.Preference{Leave: first}})
				w.when(func() bool { return stands(1) && w.machinesOf(market.OnDemand)[0] != first }, func() { done = true })
			})
		})
		w.neverBack()
		return func() bool { return done }
	})
}

// A number that a person requests holds: nothing is lent in addition.
func TestNothingIsLentOnTopOfARequestedNumber(t *testing.T) {
	s := six()
	s.transient = 2
	w := newWorld(1, s)
	w.settled(func() {
		w.step(ScaleWanted{ID: 1, Reliable: 1})
		had := w.ctrl.wantReliable()
		w.step(Preferred{Preference: tiers.Preference{More: 3}})
		if got := w.ctrl.wantReliable(); had != 2 || got != 2 {
			t.Errorf("%d reliable machines, and %d with 3 lent", had, got)
		}
	})
	finish(t, w, "finished")
}

// No more machines are lent than partitions can use.
func TestLentMachinesAreBounded(t *testing.T) {
	w := newWorld(1, six())
	w.until(8 * time.Second)
	partitions := w.ctrl.cfg.Job.Schema.Partitions
	w.step(Preferred{Preference: tiers.Preference{More: 1000, Owners: []ps.ServerID{"nobody"}}})
	if got := w.ctrl.wantReliable(); got != partitions {
		t.Errorf("%d reliable machines for %d partitions", got, partitions)
	}
}
