package elasticity

import (
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// The only reliable machine owns everything in stage 1. On a busy host it is silent for longer than others may be, and the controller
// waits: nothing is repeated. If it does not reconnect it is given up, and the run continues with another.
func TestTheOnlyReliableMachineIsSilent(t *testing.T) {
	s := plain()
	s.transient, s.deadAfter, s.saveEvery = 1, 1500*time.Millisecond, time.Second
	silent := func(w *world, d time.Duration) *bool {
		done := new(bool)
		w.when(func() bool { return w.grown(1) && w.ctrl.training.Saves.At > 5 }, func() {
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

// A machine that falls silent right after its first call is noticed DeadAfter later. Before the call, BootWithin applied.
func TestSilentAfterItsFirstCall(t *testing.T) {
	s := six()
	s.transient = 0
	schedule(t, s, func(w *world) func() bool {
		var silent *node
		var since time.Time
		w.hooks["boot"] = func(n *node) {
			if silent == nil {
				silent, since = n, w.now
				w.after(25*time.Millisecond, func() { n.fallSilent(7 * time.Second) }) // the call has been sent
			}
		}
		w.onEntry = func(e journal.Entry) {
			if e.Kind == journal.Failed && w.now.Sub(since) > s.deadAfter+200*time.Millisecond {
				w.failf("%s was noticed after %v: %s", silent.id, w.now.Sub(since), line(e))
			}
		}
		return func() bool { return w.count(journal.Failed) == 1 }
	})
}

// Reliable machines that are sole holders of partitions get more patience. When all copies of one partition are lost, a second machine
// falls silent after it was fenced, and a third one that was silent answers late, everything restarts: the second one's state is now
// worthless, and it is given up at once.
func TestPatienceEndsWhenEverythingBeginsAgain(t *testing.T) {
	s := plain()
	s.reliable, s.transient, s.partitions, s.clocks = 3, 0, 6, 100
	schedule(t, s, func(w *world) func() bool {
		var begunAgain, givenUp time.Time
		w.when(func() bool { return w.ctrl.training.Clocks.Done >= 3 }, func() {
			ids := w.machinesOf(market.OnDemand)
			w.kill(ids[2])
			w.nodes[ids[1]].fallSilent(s.deadAfter * 8 / 5)
			w.when(func() bool {
				return w.ctrl.training.Recovery != nil && w.ctrl.training.Recovery.Holdings[ids[0]].Owned != nil
			}, func() {
				w.nodes[ids[0]].fallSilent(s.deadAfter * 14 / 5)
			})
			w.onEntry = func(e journal.Entry) {
				switch {
				case e.Kind == journal.Rollback && begunAgain.IsZero():
					begunAgain = w.now
				case e.Kind == journal.Failed && e.Instance == string(ids[0]) && givenUp.IsZero():
					givenUp = w.now
				}
			}
		})
		return func() bool { return !begunAgain.IsZero() && givenUp.Equal(begunAgain) }
	})
}

// One of two reliable machines is to be released. The other one backs up its partitions from the next cut on. The first one falls silent
// before that cut: it is still their sole holder, and gets the longer wait.
func TestPatienceUntilTheNewBackupHoldsACut(t *testing.T) {
	s := plain()
	s.reliable, s.transient = 2, 0
	schedule(t, s, func(w *world) func() bool {
		done := false
		w.after(3*time.Second, func() { w.askForReliable(-1) })
		w.onSend = func(send Send) {
			if b, ok := send.Command.Do.(tiers.BackUp); ok && b.Empty && !done {
				done = true
				others := slices.DeleteFunc(w.machinesOf(market.OnDemand), func(id ps.ServerID) bool { return id == send.ID })
				w.nodes[others[0]].fallSilent(2 * s.deadAfter)
			}
		}
		w.neverBack()
		return func() bool { return done && w.count(journal.Failed) == 0 }
	})
}
