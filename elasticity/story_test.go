package elasticity

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// finish runs a world to its end and checks the promises.
func finish(t *testing.T, w *world, outcomes ...string) {
	t.Helper()
	if os.Getenv("TIERML_TRACE") != "" {
		w.trace = t.Logf
	}
	err := w.run()
	if err == nil {
		err = w.check(outcomes...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TierML, section 3: growth, bulk eviction with notice, growth again; no clock is repeated.
func TestWarnedBulkEvictionLosesNothing(t *testing.T) {
	for seed := range uint64(15) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(seed, plain())
			w.after(6*time.Second, func() {
				w.policy.count = 0
				w.evict(4*time.Second, w.spot()...)
			})
			w.after(11*time.Second, func() { w.policy.count = 5 })
			finish(t, w, "finished")
			for _, e := range w.entries {
				if e.Kind == journal.Rollback || e.Redone {
					t.Fatalf("a warned eviction must not lose work: %s", line(e))
				}
			}
			if n := w.count(journal.Stage); n < 3 {
				t.Errorf("%d stage changes, want at least up, down, up", n)
			}
		})
	}
}

// A proactive switch moves a working fleet to another pool without losing work.
func TestSwitchLosesNothing(t *testing.T) {
	for seed := range uint64(10) {
		s := plain()
		s.transient = 6
		w := newWorld(seed, s)
		w.after(5*time.Second, func() { w.policy.pool = poolB })
		finish(t, w, "finished")
		if w.count(journal.Rollback) > 0 {
			t.Fatal("a switch must not roll back")
		}
		if w.count(journal.Switch) != 1 {
			t.Fatal("want one switch")
		}
	}
}

// One machine killed without warning: if it served, everything returns to the last committed cut.
func TestUnwarnedKillRollsBack(t *testing.T) {
	for seed := range uint64(15) {
		s := plain()
		s.transient = 6
		w := newWorld(seed, s)
		serves := false
		w.after(7*time.Second, func() {
			id := w.one(w.spot(), w.rng.Float64())
			serves = w.ctrl.training.Layout.OwnsAny(id)
			w.kill(id)
		})
		finish(t, w, "finished")
		if n := w.count(journal.Rollback); serves != (n > 0) {
			t.Errorf("seed %d: the machine served: %v, and there were %d roll-backs", seed, serves, n)
		}
	}
}

// The run survives the loss of a reliable machine: a replacement is bought, and everything returns to the committed cut if the owners can,
// or otherwise to a checkpoint. A machine that backs nothing up is like any other worker.
func TestLossOfAReliableMachine(t *testing.T) {
	byUndo, byCheckpoint := 0, 0
	for seed := range uint64(60) {
		s := plain()
		s.reliable, s.transient = 1+int(seed%3), int(seed%8)
		s.partitions = 1 + int(seed%4)
		s.saveEvery, s.cutEvery = 700*time.Millisecond, 500*time.Millisecond
		w := newWorld(seed, s)
		backsUp := false
		w.after(4*time.Second+w.delay(2*time.Second), func() {
			id := w.one(w.machinesOf(market.OnDemand), w.rng.Float64())
			backsUp = len(partitionsOf(w.ctrl.training.Layout.Route.Backup, id)) > 0
			w.kill(id)
		})
		if err := w.run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := w.check("finished"); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, e := range w.entries {
			switch {
			case e.Kind != journal.Rollback:
			case !backsUp:
				t.Errorf("seed %d: a worker alone was lost: %s", seed, line(e))
			case strings.Contains(e.Why, "back to the checkpoint"):
				byCheckpoint++
			default:
				byUndo++
			}
		}
		if bought := len(w.machinesOf(market.OnDemand)); w.count(journal.Launch) < s.reliable+1 {
			t.Errorf("seed %d: no replacement was bought (%d run)", seed, bought)
		}
	}
	if byUndo < 5 || byCheckpoint < 5 {
		t.Errorf("%d times owners returned by their undo, %d times from a checkpoint: the test shows too little", byUndo, byCheckpoint)
	}
}

func TestPlansPrintAndParse(t *testing.T) {
	for seed := range uint64(200) {
		p := drawPlan(rand.New(rand.NewPCG(seed, 2)))
		got, err := parsePlan(p.String())
		if err != nil || len(p) > 0 && !reflect.DeepEqual(got, p) {
			t.Fatalf("%v\n became\n%v (%v)", p, got, err)
		}
	}
	for _, wrong := range []string{"1s", "soon kill 0.5", "1s kill", "1s kill 1.5", "1s stop 3", "1s dance"} {
		if _, err := parsePlan(wrong); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}
