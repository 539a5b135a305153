package elasticity

import (
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/tiers"
)

// A worker that is to give splits back is cut off while it works on them, and the controller dies. The next one asks everybody. The
// owners answer before the worker is back: it then commits its clock and gives the splits back to nobody, and only after that says
// that it does not have them. The marks that the owners have told of are one clock too low by then.
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
					if !settled || given || len(giver.worker.releases) == 0 || w.ctrl.ownsAny(giver.id) {
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
