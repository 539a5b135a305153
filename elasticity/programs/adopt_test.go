package programs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/programs"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/tiers"
)

// A controller is killed after each of its actions in turn, and another takes over at once: programs continue, no step is repeated, and no
// machine is bought beyond those that the job needs.
func TestEveryCrashPoint(t *testing.T) {
	for name, cfg := range kinds {
		calm := newWorld(t, cfg)
		calm.seconds(400)
		if calm.outcome != "finished" {
			t.Fatalf("%s, undisturbed: %q", name, calm.outcome)
		}
		for at := 1; at <= calm.acted; at++ {
			t.Run(fmt.Sprintf("%s after %d", name, at), func(t *testing.T) {
				w := emptyWorld(t, cfg)
				w.killAt = at
				w.again()
				for range 20 {
					w.seconds(30)
					w.list() // the provider is queried now and then
				}
				if w.outcome != "finished" || w.life != 2 {
					t.Fatalf("the run is %q with %d controllers; the last line: %+v", w.outcome, w.life, w.entries[len(w.entries)-1])
				}
				w.check()
				if w.advances != calm.advances && (cfg.Sweep == nil || len(cfg.Sweep.Rungs) == 0) || // where a trial is dropped a step later, it has done one more
					len(w.order) != len(calm.order) {
					t.Errorf("%d steps on %d machines; undisturbed %d on %d", w.advances, len(w.order), calm.advances, len(calm.order))
				}
				if over := w.lines(journal.TakeOver); len(over) > 1 {
					t.Errorf("%d lines of taking over", len(over))
				}
			})
		}
	}
}

// A cloud that dies with its controller leaves running machines that the next cloud does not list, or lists as ended when the cloud died:
// no program gets a second copy before they must have ended.
func TestOrphansHaveNoSecondCopy(t *testing.T) {
	for mode := range 4 {
		listed, twice := mode%2 == 1, mode > 1 // twice: the next controller is killed, too, while it waits for them
		for name, cfg := range map[string]programs.Config{"single": {Count: 1, State: true}, "gang": {Count: 2, State: true, SaveEvery: 5 * time.Second}, "array": {Count: 2, Tasks: 3, State: true}} {
			cfg.Orphaned = 30 * time.Second
			w := newWorld(t, cfg)
			w.seconds(15)
			orphans := w.order
			if w.outcome != "" || len(orphans) != cfg.Count || w.running(programs.Key(cfg.Tasks, 0)) == nil {
				t.Fatalf("%s: %q on %d machines", name, w.outcome, len(orphans))
			}
			of, gone := map[string]bool{}, []provisioner.Instance{}
			for _, id := range orphans {
				of[w.machines[id].run.Key] = true
				i := w.machines[id].instance
				i.State, i.Ended, i.EndedBy, i.Presumed = provisioner.Terminated, w.now.Truncate(time.Second), market.ByUser, true
				gone = append(gone, i)
				delete(w.machines, id)
			}
			w.order = nil // the new cloud knows none
			if listed {
				w.gone = gone
			}
			w.again()
			copies := func() (n int) {
				for _, m := range w.machines {
					if m.runs && of[m.run.Key] {
						n++
					}
				}
				return n
			}
			for second := range 29 {
				w.seconds(1)
				if twice && second == 6 {
					w.again()
				}
				if n := copies(); n > 0 {
					t.Errorf("%s, listed %v, twice %v: %d copies run next to orphans after %d s", name, listed, twice, n, second+1)
					break
				}
			}
			w.seconds(20)
			if n := copies(); n == 0 {
				t.Errorf("%s: nothing runs after the orphans' end", name)
			}
			w.seconds(200)
			if ends := w.ends(programs.Key(cfg.Tasks, 0)); len(ends) == 0 || ends[len(ends)-1] != journal.Finished {
				t.Errorf("%s: the program has come to %v", name, ends)
			}
		}
	}
}

// A run that ends at once, for example because its journal cannot be written, makes its programs save their state.
func TestEndAtOnceSaves(t *testing.T) {
	w := newWorld(t, programs.Config{Count: 2, State: true})
	w.seconds(15)
	before := w.saves
	w.tell(elasticity.StopWanted{Why: "the journal cannot be written", Now: true})
	if n := w.saves - before; n != 2 {
		t.Errorf("%d of 2 ranks were saved", n)
	}
}

// A machine whose metadata service does not answer does not learn of its eviction; the controller does, and makes its program end cleanly
// and be saved. A machine that has learned of it has the whole notice.
func TestMachineThatDoesNotHearOfItsEviction(t *testing.T) {
	for _, hears := range []bool{false, true} {
		w := newWorld(t, programs.Config{Count: 1, State: true})
		w.seconds(15)
		m := w.running("rank-0")
		deadline := w.now.Add(20 * time.Second)
		w.tell(elasticity.Warned{ID: m.id, Deadline: deadline})
		if hears {
			w.report(m, tiers.Warned{Deadline: deadline})
		}
		w.seconds(5)
		saved := w.lines(journal.ProgramSaved)
		if stopped := len(saved) > 0 && saved[len(saved)-1].Clock == m.step && !m.runs; stopped == hears {
			t.Errorf("heard %v: it runs %v at step %d, and the last saved state is %+v", hears, m.runs, m.step, saved)
		}
	}
}
