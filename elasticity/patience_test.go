package elasticity

import (
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// The only reliable machine owns everything in stage 1. On a busy host it falls silent for longer than others may, and is
// waited for: nothing is done again. When it does not come back it is given up, and the run goes on with another.
func TestTheOnlyReliableMachineIsSilent(t *testing.T) {
	s := plain()
	s.transient, s.deadAfter, s.saveEvery = 1, 1500*time.Millisecond, time.Second
	silent := func(w *world, d time.Duration) *bool {
		done := new(bool)
		w.when(func() bool { return w.grown(1) && w.ctrl.saves.at > 5 }, func() {
			*done = true
			w.nodes["i-0001"].fallSilent(d)
		})
		return done
	}
	t.Run("for a while", func(t *testing.T) {
		schedule(t, s, func(w *world) func() bool {
			done := silent(w, 3500*time.Millisecond)
			w.neverBack()
			return func() bool { return *done && w.count(journal.Failed) == 0 }
		})
	})
	t.Run("for good", func(t *testing.T) {
		schedule(t, s, func(w *world) func() bool {
			done := silent(w, time.Minute)
			return func() bool { return *done && w.count(journal.Rollback) == 1 && w.count(journal.Failed) == 1 }
		})
	})
}
