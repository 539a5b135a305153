package elasticity

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// saving1s returns a world that takes checkpoints.
func saving1s() shape {
	s := six()
	s.saveEvery = time.Second
	s.cutEvery, s.clocks = 500*time.Millisecond, 90
	return s
}

// Committed cuts are saved while training continues: while a cut is written, others are committed, machines come and go,
// and no clock waits (the world compares what is saved with the undisturbed state, to the last bit).
func TestCheckpointsWhileTraining(t *testing.T) {
	overlapped := false
	schedule(t, saving1s(), func(w *world) func() bool {
		w.store.slow = 300 * time.Millisecond // eight partitions: longer than the time between two cuts
		cuts := 0
		w.onEntry = func(e journal.Entry) {
			switch {
			case e.Kind == journal.Cut && w.ctrl.training.Saves.Current != nil:
				cuts++
			case e.Kind == journal.Checkpoint:
				overlapped = overlapped || cuts > 0
				cuts = 0
			}
		}
		w.settled(func() {
			w.evict(3*time.Second, w.spot()[:2]...)
			w.after(time.Second, func() { w.kill(w.spot()[3]) })
		})
		return func() bool { return w.count(journal.Checkpoint) >= 2 && w.count(journal.SaveFailed) == 0 }
	})
	if !overlapped {
		t.Error("no cut was ever committed while a checkpoint was written")
	}
}

// By clocks instead of by time; none unless requested.
func TestCheckpointsByClocks(t *testing.T) {
	s := saving1s()
	s.saveEvery, s.saveClocks = 0, 20
	schedule(t, s, func(w *world) func() bool {
		return func() bool { n := w.count(journal.Checkpoint); return n >= 1 && n <= 3 }
	})
	s.saveClocks = 0
	schedule(t, s, func(w *world) func() bool {
		return func() bool { return w.count(journal.Checkpoint)+w.count(journal.SaveFailed) == 0 }
	})
}

// A disk is full, temporarily or permanently: the run continues, says so, and the last good checkpoint stays.
func TestCheckpointOnAFullDisk(t *testing.T) {
	schedule(t, saving1s(), func(w *world) func() bool {
		before := ""
		w.settled(func() {
			before = w.ctrl.training.Saves.Newest
			w.store.full = w.now.Add(2500 * time.Millisecond)
		})
		w.onEntry = func(e journal.Entry) {
			if e.Kind == journal.SaveFailed {
				if !strings.Contains(e.Why, "no space left") {
					w.failf("a checkpoint fails: %s", e.Why)
				}
				if w.ctrl.training.Saves.Newest != before {
					w.failf("the newest checkpoint is %q, it was %q", w.ctrl.training.Saves.Newest, before)
				}
			}
		}
		return func() bool {
			last := journal.Kind("")
			for _, e := range w.entries {
				if e.Kind == journal.Checkpoint || e.Kind == journal.SaveFailed {
					last = e.Kind
				}
			}
			return w.count(journal.SaveFailed) > 0 && last == journal.Checkpoint && w.count(journal.Rollback) == 0
		}
	})
}

// Everything is lost, and the newest checkpoint turns out to be damaged when it is read: the machines that were to begin with it are given
// up, and everything returns to the one before.
func TestNewestCheckpointIsDamaged(t *testing.T) {
	s := six()
	s.clocks, s.cutEvery, s.saveEvery = 95, 400*time.Millisecond, 500*time.Millisecond
	schedule(t, s, func(w *world) func() bool {
		var damaged, older string
		w.settled(func() {
			w.when(func() bool { return w.count(journal.Checkpoint) >= 3 }, func() {
				w.damageNewest()
				damaged, older = w.ctrl.training.Saves.Newest, w.ctrl.training.Saves.Older[0].Name
				w.store.full = w.now.Add(time.Minute) // no newer one
				for _, id := range append(w.spot(), w.machinesOf(market.OnDemand)...) {
					w.kill(id)
				}
			})
		})
		return func() bool {
			var back []string
			for _, e := range w.lines(journal.Rollback) {
				if _, name, found := strings.Cut(e.Why, "back to the checkpoint "); found {
					back = append(back, name)
				}
			}
			return slices.Equal(back, []string{damaged, older})
		}
	})
}
