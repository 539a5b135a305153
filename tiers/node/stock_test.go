package node

import (
	"testing"
	"testing/synctest"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// A controller is restarted while a worker computes a split that the previous one had requested. The worker reports that it holds the
// split, so it keeps it: the answer to the release would reach no controller, and the split would have no worker.
func TestReleaseOfTheControllerBefore(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		m := w.join("i-1", 1, 5)
		w.do("i-1", tiers.Load{Splits: []ps.Split{0, 1, 2, 3, 4, 5}}) // so that the first round has all splits
		w.do("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4, 5)})
		synctest.Wait() // clock 1 is being computed
		release := w.order("i-1", tiers.Release{Splits: []ps.Split{0, 1, 2}})
		stock := w.do("i-1", tiers.TakeStock{}).(tiers.Stock)
		if len(stock.Splits) != 6 {
			t.Fatalf("it holds %v; want all six, since none has left yet", stock.Splits)
		}
		if a := w.answer("i-1", release); a.Code != tiers.CodeFailed {
			t.Errorf("the release was answered with %+v", a)
		}
		w.awaitClock(5)
		w.sameAsUndisturbed(5)
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
}

// A controller is restarted while a machine loads a split that the previous one had assigned. If loading failed, the answer would reach no
// controller. So the machine does not report the split, and it is assigned again.
func TestSplitThatTheControllerBeforeAssigned(t *testing.T) {
	simulate(t, func(t *testing.T, w *world) {
		open := make(chan struct{})
		m := w.start("i-1", func(m *machine) {
			m.opening = func(id ps.Split) {
				if id == 5 {
					<-open
				}
			}
		})
		w.awaitReport("i-1", func(r tiers.Report) bool { _, ok := r.(tiers.Hello); return ok })
		w.do("i-1", w.welcome(1, 5))
		w.order("i-1", tiers.Assign{Splits: all(0, 1, 2, 3, 4, 5)})
		synctest.Wait()
		if stock := w.do("i-1", tiers.TakeStock{}).(tiers.Stock); len(stock.Splits) != 5 {
			t.Errorf("it holds %v; want all but split 5", stock.Splits)
		}
		close(open)
		w.do("i-1", tiers.Assign{Splits: all(5)})
		w.awaitClock(5)
		w.sameAsUndisturbed(5)
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
}

// A controller dies between the line that a machine joined and the route that tells the machine so. The next one queries it: the machine is
// in the generation in which it was welcomed, like all others, so nothing has to be repeated.
func TestStockBeforeTheFirstRoute(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is given, and this trains on real nodes: leave -short out")
	}
	real(t, nil, func(t *testing.T, w *world) {
		m := w.start("i-1")
		w.awaitReport("i-1", func(r tiers.Report) bool { _, ok := r.(tiers.Hello); return ok })
		welcome := w.welcome(1, 5)
		welcome.Generation = 3
		w.do("i-1", welcome)
		if stock := w.do("i-1", tiers.TakeStock{}).(tiers.Stock); stock.Generation != 3 || stock.Suspended {
			t.Errorf("welcomed in generation 3, it is in %d, suspended %v", stock.Generation, stock.Suspended)
		}
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
}
