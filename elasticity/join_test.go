package elasticity

import (
	"testing"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// The contract, Data and memory: a new machine loads its splits before it takes any over; until then the previous owner keeps working on
// these. So a newcomer is welcomed, loads, and is handed work only when it is ready; no split is released before its new owner has loaded
// it, no worker parks, and no clock becomes longer than the longest before.
func TestJoiningCostsTheOthersNothing(t *testing.T) {
	var before, during float64 // the longest clock of all worlds: luck differs more than their clocks
	for seed := range uint64(8) {
		asked := false
		settled := 0 // of w.sent
		w := newElastic(seed, elastic(), func(w *world) {
			asked, settled = true, len(w.sent)
			w.ask(6, 0)
		})
		w.onEntry = func(e journal.Entry) {
			switch {
			case e.Kind != journal.ClockDone || e.Clock < 3:
			case !asked:
				before = max(before, e.Seconds)
			case len(w.scaled) < 2:
				during = max(during, e.Seconds)
			}
		}
		loaded := map[ps.ServerID]map[ps.Split]bool{}
		handed := 0
		w.onSend = func(s Send) {
			c := w.ctrl
			switch do := s.Command.Do.(type) {
			case tiers.Assign:
				for _, at := range do.Splits {
					if !c.training.Nodes.ByID[s.ID].Loaded.Has(at.Split) {
						t.Fatalf("seed %d: %s is handed split %d, which it does not have", seed, s.ID, at.Split)
					}
				}
				if loaded[s.ID] != nil {
					handed++
				}
			case tiers.Load:
				if loaded[s.ID] == nil {
					loaded[s.ID] = map[ps.Split]bool{}
				}
			case tiers.Release:
				for _, split := range do.Splits {
					if taker := c.training.Nodes.ByID[c.training.Layout.Target.Worker[split]]; !taker.Ready || !taker.Loaded.Has(split) {
						t.Fatalf("seed %d: %s is asked for split %d before %s has its data", seed, s.ID, split, taker.ID)
					}
				}
			case tiers.Park:
				if asked && !c.training.Clocks.Over() {
					t.Fatalf("seed %d: %s is parked", seed, s.ID)
				}
			}
		}
		w.neverBackToo()
		finish(t, w, "finished")
		if handed < 6 || settled == 0 {
			t.Errorf("seed %d: %d newcomers were handed work", seed, handed)
		}
	}
	t.Logf("the longest clock took %.3f s while six machines joined, %.3f s before", during, before)
	if during == 0 || during > before+0.1 {
		t.Errorf("the longest clock took %.3f s while six machines joined, %.3f s before", during, before)
	}
}

// neverBackToo is neverBack in addition to the other journal checks.
func (w *world) neverBackToo() {
	look := w.onEntry
	w.neverBack()
	back := w.onEntry
	w.onEntry = func(e journal.Entry) {
		look(e)
		back(e)
	}
}
