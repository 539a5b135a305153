package elasticity

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
)

// The model is saved when all clocks are done. The machines may then hold its only copy.

// alone returns a world in which one reliable machine holds everything.
func alone() shape {
	s := plain()
	s.transient, s.clocks = 0, 20
	return s
}

// The only machine that holds the model falls silent when it is read, for nearly as long as allowed.
func TestExportOutlastsASilentOwner(t *testing.T) {
	s := alone()
	schedule(t, s, func(w *world) func() bool {
		exports := 0
		w.hooks["export"] = func(*node) {
			if exports++; exports == 1 {
				w.nodes[w.machinesOf(market.OnDemand)[0]].fallSilent(s.deadAfter * 14 / 5)
			}
		}
		w.neverBack()
		return func() bool { return exports > 5 && w.exported == ps.Clock(s.clocks) }
	})
}

// unsavable makes saving the model fail for a time, from the first attempt on. A minute corresponds to ten at full speed.
func (w *world) unsavable(d time.Duration) {
	w.ctrl.configure(func(c *Config) { c.Speed = 0.1 })
	var first time.Time
	w.unsaved = func() error {
		if first.IsZero() {
			first = w.now
		}
		if w.now.Sub(first) < d {
			return errors.New("no space left on device")
		}
		return nil
	}
}

func (w *world) exportLines() (lines []journal.Entry) {
	for _, e := range w.entries {
		if e.Kind == journal.Export {
			lines = append(lines, e)
		}
	}
	return lines
}

// The disk for the model is full for a while: saving is retried, the journal says so once, and no machine ends.
func TestExportOutlastsAFullDisk(t *testing.T) {
	schedule(t, alone(), func(w *world) func() bool {
		w.unsavable(50 * time.Second)
		return func() bool {
			e := w.exportLines()
			return len(e) == 2 && e[0].Outcome == "" && strings.HasPrefix(e[0].Why, "no space left on device; retrying for ") &&
				e[1].Outcome == "finished" && e[1].T.Sub(e[0].T) >= 50*time.Second && w.count(journal.Leave) == 1
		}
	})
}

// It stays full: the run fails after a time, since waiting machines cost money.
func TestExportFailsAfterATime(t *testing.T) {
	w := newWorld(1, alone())
	w.unsavable(time.Hour)
	finish(t, w, "failed")
	e := w.exportLines()
	if len(e) != 2 || e[1].Outcome != "failed" {
		t.Fatalf("%+v", e)
	}
	if took := e[1].T.Sub(e[0].T); took < time.Minute || took > time.Minute+10*time.Second {
		t.Errorf("it was given up after %v", took)
	}
	if why := w.ctrl.step.FailWhy; !strings.HasPrefix(why, "saving the model has failed for 60") || !strings.HasSuffix(why, "no space left on device") {
		t.Errorf("failed with %q", why)
	}
}

// An owner is lost while the model is read and everything returns to the cut. The first reading's result, however late, is not taken for
// the second's.
func TestExportOfAnEndedGeneration(t *testing.T) {
	w := newWorld(1, six())
	exports := 0
	w.hooks["export"] = func(*node) {
		if exports++; exports == 1 {
			w.kill(w.spot()[0])
			w.when(func() bool { return w.count(journal.Rollback) > 0 }, func() {
				w.step(Exported{Generation: 1, Model: "an older one"})
			})
		}
	}
	finish(t, w, "finished")
	if e := w.exportLines(); exports < 2 || w.count(journal.Rollback) == 0 || e[len(e)-1].Model != "model" {
		t.Errorf("%d exports, %d roll-backs, %+v", exports, w.count(journal.Rollback), e)
	}
}

// The only machine that backs up partitions is lost, and the run is due to end before there is another: none is bought for that. The last
// cut is committed when every split has reached it, not when its name is known.
func TestExportWithoutABackup(t *testing.T) {
	both(t, func(w *world) func() bool {
		bare := false
		w.settled(func() { // the owners return to a cut that they have had since the partitions moved to them
			since := w.ctrl.training.Cuts.Committed
			w.when(func() bool { return w.ctrl.training.Cuts.Committed > since }, func() { w.kill("i-0001") })
		})
		w.onEntry = func(e journal.Entry) {
			if e.Kind == journal.Rollback {
				w.when(func() bool { return w.ctrl.training.Recovery == nil }, func() {
					bare = w.ctrl.training.Layout.Bare()
					w.step(StopWanted{Why: "a user asked"})
				})
			}
		}
		return func() bool { return bare && w.exported > 0 }
	}, "interrupted")
}
