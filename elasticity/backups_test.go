package elasticity

import (
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/training"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// A machine that backs up some partitions becomes the backup of others too, and learns of these late. Their owners promptly send it the
// next cut: when it reports the cut as held, it must hold all of it.
func TestBackupHearsLateOfItsPartitions(t *testing.T) {
	s := six()
	s.reliable = 2
	schedule(t, s, func(w *world) func() bool {
		late := 0
		w.settled(func() { w.askForReliable(-1) })
		w.onSend = func(a Send) {
			if do, ok := a.Command.Do.(tiers.BackUp); ok && do.Empty && len(partitionsOf(w.ctrl.training.Layout.Route.Backup, a.ID)) > len(do.Partitions) {
				late++
				w.nodes[a.ID].down.last = w.now.Add(400 * time.Millisecond)
			}
		}
		w.neverBack()
		return func() bool { return late > 0 && w.count(journal.Failed) == 0 }
	})
}

// A backup learns late that a cut is committed, when the next one is already due. Until then the cut is only a delivery to it, but only
// this machine holds it when an owner dies: the next delivery must not replace it.
func TestBackupHearsLateOfACommit(t *testing.T) {
	for _, dies := range []bool{false, true} {
		s := six()
		s.cutEvery = time.Millisecond
		schedule(t, s, func(w *world) func() bool {
			var late ps.Clock
			settled := false
			w.settled(func() { settled = true })
			w.onSend = func(a Send) {
				do, ok := a.Command.Do.(tiers.CommitCut)
				if !ok || !settled || late > 0 || len(partitionsOf(w.ctrl.training.Layout.Route.Backup, a.ID)) == 0 {
					return
				}
				late = do.Cut
				w.nodes[a.ID].down.last = w.now.Add(600 * time.Millisecond)
				if owner := w.ctrl.training.Layout.Route.Owner[0]; dies {
					w.after(550*time.Millisecond, func() { w.kill(owner) })
				}
			}
			w.onEntry = func(e journal.Entry) {
				if e.Kind == journal.Rollback && (!dies || e.Clock < int64(late)) {
					w.failf("work is lost: %s\n%s", line(e), w.describe())
				}
			}
			return func() bool { return late > 0 && (w.count(journal.Rollback) > 0) == dies }
		})
	}
}

// A reliable machine is lost, everything returns to the cut, and the other machine must back up what the lost one did. All servers get
// notices before any worker has begun a clock again: the flush cannot rest at the committed cut, which the new backup lacks.
func TestFlushRightAfterABackupWasNamed(t *testing.T) {
	s := six()
	s.reliable, s.noticeWait = 2, time.Millisecond // a whole bulk eviction is seen as one
	schedule(t, s, func(w *world) func() bool {
		lost, flushed := false, false
		w.settled(func() {
			cut := w.ctrl.training.Cuts.Committed
			w.when(func() bool { return w.ctrl.training.Cuts.Committed > cut }, func() { // the owners can return to it
				lost = true
				w.kill(w.machinesOf(market.OnDemand)[0])
				w.reading = func(*node) time.Duration { return 80 * time.Millisecond }
			})
		})
		w.onSend = func(a Send) {
			if do, ok := a.Command.Do.(tiers.BackUp); ok && do.Empty && lost && w.policy.count > 0 {
				w.policy.count = 0
				w.after(0, func() { w.evict(4*time.Second, w.spot()...) })
			}
		}
		w.onEntry = func(e journal.Entry) {
			h := w.ctrl.training.Halt
			flushed = flushed || h != nil && h.Purpose == training.Flush && w.ctrl.training.Clocks.Done == w.ctrl.training.Cuts.Committed
			if e.Kind == journal.Rollback && w.count(journal.Rollback) > 1 {
				w.failf("work is lost: %s\n%s", line(e), w.describe())
			}
		}
		return func() bool { return flushed }
	})
}
