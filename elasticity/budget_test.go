package elasticity

import (
	"testing"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/tiers"
)

// A pause gives up every transient machine and no reliable one, and training continues; afterwards the same number is bought again. Nothing
// is repeated, and the model is the undisturbed one (finish).
func TestBudgetPauses(t *testing.T) {
	for seed := range uint64(6) {
		paused, back := false, false
		w := newElastic(seed, elastic(), func(w *world) {
			before := w.ctrl.training.Clocks.Done
			w.step(BudgetChanged{Do: BudgetPauses, Why: "too dear", USD: market.Dollar})
			w.when(func() bool {
				for _, m := range w.ctrl.training.Nodes.Roster {
					if m.Tier == tiers.Transient && !m.Ended {
						return false
					}
				}
				return w.ctrl.training.Clocks.Done > before+2
			}, func() {
				paused = true
				if s := w.ctrl.Scale(); s.Reliable == 0 || s.Want.Machines != 6 {
					t.Errorf("seed %d: in the pause %+v", seed, s)
				}
				w.step(BudgetChanged{Do: BudgetPauses, Why: "again"}) // it already is
				w.step(BudgetChanged{Do: BudgetGoesOn, Why: "cheap again"})
				w.when(func() bool { return w.ctrl.Scale().Workers == 6 }, func() { back = true })
			})
		})
		w.neverBack()
		finish(t, w, "finished")
		if !paused || !back {
			t.Errorf("seed %d: paused %v, and back %v", seed, paused, back)
		}
		var told []string
		for _, e := range w.lines(journal.Budget) {
			if err := e.Validate(); err != nil {
				t.Error(err)
			}
			told = append(told, e.To+" "+e.Why)
		}
		if len(told) != 2 || told[0] != "paused too dear" || told[1] != "goes-on cheap again" {
			t.Errorf("seed %d: %q", seed, told)
		}
	}
}

// A successor is still in its predecessor's pause.
func TestPauseIsRemembered(t *testing.T) {
	for _, c := range []struct {
		told []string
		want string
	}{{nil, ""}, {[]string{journal.Warned}, ""}, {[]string{journal.Paused}, "why"}, {[]string{journal.Paused, journal.GoesOn}, ""}} {
		entries := []journal.Entry{{Kind: journal.Start}}
		for _, to := range c.told {
			entries = append(entries, journal.Entry{Kind: journal.Budget, To: to, Why: "why"})
		}
		past, err := ReadPast(entries)
		if err != nil {
			t.Fatal(err)
		}
		if past.Paused != c.want {
			t.Errorf("%q: paused %q", c.told, past.Paused)
		}
	}
}
