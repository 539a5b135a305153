package elasticity

import (
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/tiers"
)

// An application that panics at a clock ends the run cleanly: the committed cut is saved, the reason is in the journal with the end of the
// log, every machine ends, and few were bought.
func TestAnApplicationThatPanicsEndsTheRun(t *testing.T) {
	for _, words := range []bool{true, false} {
		for seed := range uint64(6) {
			s := plain()
			s.saveEvery = time.Hour // there is a place, and nothing is due
			w := newWorld(seed, s)
			const bad = 17
			w.hooks["begun"] = func(n *node) {
				if n.agent.Begun < bad || n.dead {
					return
				}
				if words {
					n.report(tiers.Crashed{Error: "panic: index out of range", Log: "goroutine 1\x1b[31m\nmain.go:17"})
				}
				n.crashed = true
				w.end(n.id, market.ByUser, "Client.InstanceInitiatedShutdown: Instance initiated shutdown")
				n.wordless = !words
			}
			finish(t, w, "failed")
			done := w.only(t, journal.Done)
			if !strings.Contains(done.Why, "agents keep ending by themselves") {
				t.Fatalf("seed %d: it ended because %q", seed, done.Why)
			}
			if words && (!strings.Contains(done.Why, "panic: index out of range") || done.Log != "goroutine 1?[31m\nmain.go:17") {
				t.Errorf("seed %d: it ended because %q, with the log %q", seed, done.Why, done.Log)
			}
			// Each new committed cut is a reason to try again. Without a reported reason it takes one more round of crashes to detect a
			// loop.
			further, cut := 0, int64(0)
			for _, e := range w.lines(journal.Cut) {
				if e.Clock > cut {
					further, cut = further+1, e.Clock
				}
			}
			fleets := max(2, 1+further)
			if !words {
				fleets = 2 + further
			}
			if n, fleet := w.count(journal.Launch), s.transient+s.reliable; n > fleet*fleets {
				t.Errorf("seed %d, words %v: %d machines were bought for a fleet of %d, with %d cuts in between", seed, words, n, fleet, further)
			}
		}
	}
}

// Settings that agents cannot start with, or data that they cannot load, stop the run before its money is gone.
func TestAgentsThatCannotStartEndTheRun(t *testing.T) {
	for _, kind := range []string{"welcome", "load"} {
		w := newWorld(5, plain())
		w.refuse = func(n *node, do tiers.Do) string {
			_, welcome := do.(tiers.Welcome)
			_, load := do.(tiers.Load)
			if welcome && kind == "welcome" || load && kind == "load" {
				return "no such thing as topics=-1"
			}
			return ""
		}
		finish(t, w, "failed")
		if done := w.only(t, journal.Done); !strings.Contains(done.Why, "no such thing as topics=-1") {
			t.Errorf("%s: it ended because %q", kind, done.Why)
		}
		if n := w.count(journal.Launch); n > fleet.CrashLoopSize {
			t.Errorf("%s: %d machines were bought", kind, n)
		}
	}
}

// Machines that their provider takes or breaks are no crash loop, however many.
func TestLossesAreNoCrashLoop(t *testing.T) {
	s := plain()
	s.cutEvery = time.Hour // nothing is ever committed
	w := newWorld(3, s)
	losses := 0
	w.hooks["begun"] = func(n *node) {
		if losses < 12 && n.instance.Pool.Class == market.Spot && w.rng.IntN(5) == 0 {
			losses++
			w.kill(n.id)
		}
	}
	finish(t, w, "finished")
	if losses < 12 {
		t.Errorf("only %d machines were lost", losses)
	}
}
