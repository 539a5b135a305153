package elasticity

import (
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// A worker that is to release splits is cut off while it works on them, and the controller dies. The next one queries all machines. The
// owners answer before the worker is back: it then commits its clock, has no controller to release the splits to, and only then reports
// that it does not have them. By then the marks that the owners have reported are one clock too low.
func TestSplitGivenBackDuringATakeover(t *testing.T) {
	both(t, func(w *world) func() bool {
		settled, asked, given := false, 0, false
		w.settled(func() {
			settled = true
			w.policy.count = 12 // splits go to the new machines
		})
		w.onSend = func(s Send) {
			switch s.Command.Do.(type) {
			case tiers.TakeStock:
				asked++
			case tiers.Release:
				giver := w.nodes[s.ID]
				w.after(20*time.Millisecond, func() { // it has arrived
					if !settled || given || !giver.agent.Releasing() || w.ctrl.training.Layout.OwnsAny(giver.id) {
						return
					}
					given = true
					giver.fallSilent(1500 * time.Millisecond)
					giver.up.last = w.now.Add(1900 * time.Millisecond) // its call comes when its clock is committed
					w.killController(200 * time.Millisecond)
				})
			}
		}
		w.neverBack()
		return func() bool { return asked > len(w.order) && w.count(journal.TakeOver) == 1 }
	})
}

// cutOffAtTheEnd makes the new owner of a partition fall silent when the last message of the move has just arrived: the old owner continues
// as before, without hearing from it. It passes both to then.
func (w *world) cutOffAtTheEnd(silent time.Duration, then func(from, to *node)) {
	var from *node
	settled, done := false, false
	w.settled(func() {
		settled = true
		w.evict(6*time.Second, w.spot()[0])
	})
	w.hooks["final"] = func(n *node) { from = n }
	w.hooks["arrived"] = func(to *node) {
		if settled && !done && from != nil && !to.hole && w.ctrl.training.Recovery == nil {
			done = true
			to.fallSilent(silent)
			old := from
			w.when(func() bool { return len(w.ctrl.training.Layout.Moves) == 0 && len(old.leaving) == 0 }, func() { then(old, to) })
		}
	}
}

// The new owner's copy from a move that was cancelled without its knowledge is void: it takes no part in cuts, and is useless.
func TestCopyOfACancelledMove(t *testing.T) {
	s := six()
	s.cutEvery = time.Millisecond
	schedule(t, s, func(w *world) func() bool {
		var back ps.Clock
		w.cutOffAtTheEnd(time.Second, func(from, to *node) {
			w.when(func() bool { return !to.hole }, func() {
				at := w.ctrl.training.Cuts.Committed
				w.when(func() bool { return w.ctrl.training.Cuts.Committed > at }, func() { back = w.ctrl.training.Cuts.Committed })
			})
		})
		w.neverBack()
		return func() bool { return back > 0 && w.count(journal.Failed) == 0 }
	})
}

// The controller dies and so does the old owner, which works on no split: only the copy of the partition is reported. The next controller
// must not use it.
func TestCopyOfACancelledMoveDuringATakeover(t *testing.T) {
	s := six()
	s.splits, s.clocks = 1, 90
	c := counting()
	c.splits, c.clocks = 1, 90
	for name, s := range map[string]shape{"BSP": s, "SSP": c} {
		t.Run(name, func(t *testing.T) {
			schedule(t, s, func(w *world) func() bool {
				taken := false
				w.cutOffAtTheEnd(time.Second, func(from, to *node) {
					if len(from.agent.Splits())+len(to.agent.Splits()) > 0 || len(from.owned()) == 0 {
						return
					}
					taken = true
					w.after(w.delay(300*time.Millisecond), func() {
						w.killController(1500 * time.Millisecond)
						w.kill(from.id)
					})
				})
				return func() bool { return taken && w.count(journal.TakeOver) == 1 && w.count(journal.Rollback) > 0 }
			})
		})
	}
}

// A machine has joined according to the journal, and the controller dies before the machine learns of it. It has no state that could be in
// doubt, so the next controller adopts the others as they are, and it with them.
func TestControllerDiesBeforeTellingAJoinedMachine(t *testing.T) {
	both(t, func(w *world) func() bool {
		killed, untold := false, 0
		w.onSend = func(s Send) {
			n := w.nodes[s.ID]
			if _, ok := s.Command.Do.(tiers.SetRoute); !ok || n.route.Version > 0 || w.ctrl.training.Nodes.ByID[n.id].Tier != tiers.Transient || w.life > 0 {
				return
			}
			n.slow = time.Second // it comes too late
			if !killed {
				killed = true
				w.after(time.Millisecond, func() { w.killController(200 * time.Millisecond) })
			}
		}
		w.onEntry = func(e journal.Entry) {
			switch e.Kind {
			case journal.Rollback:
				w.failf("work is lost: %s\n%s", line(e), w.describe())
			case journal.TakeOver:
				for _, n := range w.order {
					if n.route.Version == 0 && w.ctrl.training.Nodes.ByID[n.id].Joined > 0 {
						untold++
					}
					n.slow = 0
				}
			}
		}
		return func() bool { return untold > 0 }
	})
}
