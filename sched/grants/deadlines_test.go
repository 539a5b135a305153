package grants

import (
	"maps"
	"slices"
	"testing"

	"github.com/tierml/tierml/sched"
)

// hurry runs three jobs that have 200, 200 and 120 clocks to do by their deadlines, at half a clock a second per worker, on eight slots. It
// returns when each was done.
func hurry(t *testing.T, p sched.Policy, crash int) (effects int, ended map[string]float64) {
	w, ended := newWorld(t, crash), map[string]float64{}
	comes := map[float64]string{0: "a", 10: "b", 30: "c"}
	for id, due := range map[string]float64{"a": 130, "b": 400, "c": 150} {
		w.due[id] = due
		w.asked[id] = Asked{Least: 1, Most: 8, Start: 2, Unit: sched.Resources{2, 4}, Clocks: map[string]int64{"a": 200, "b": 200, "c": 120}[id]}
	}
	for ; len(ended) < len(w.due); w.passed += 10 {
		if w.passed > 2000 {
			t.Fatalf("%s, crash %d: it does not end: %v have done clocks, and %v are held", p.Name(), crash, w.done, w.held)
		}
		if id, comes := comes[w.passed]; comes {
			w.came = append(w.came, id)
		}
		for !w.process(p) {
		}
		for _, id := range w.came {
			held := w.held[id]
			if held == 0 {
				continue
			}
			w.done[id] += 10 * float64(held) / 2
			if m := (sched.Measured{Workers: held, Speed: float64(held) / 2}); !slices.Contains(w.pace[id], m) {
				w.pace[id] = append(slices.Clone(w.pace[id]), m)
			}
			if w.done[id] >= float64(w.asked[id].Clocks) {
				ended[id] = w.passed + 10
				w.end(id)
			}
		}
	}
	return w.steps, ended
}

// Jobs with deadlines: wherever the process is killed, none is lost and none is started twice, no slot is granted twice, and each job ends
// when it would without a kill; with the scheduler deadline by its deadline.
func TestDeadlinesAtEveryCrashPoint(t *testing.T) {
	for _, p := range []sched.Policy{sched.Deadline{}, sched.Marginal{}, sched.DRF{}, sched.EarlyFeedback{}} {
		all, want := hurry(t, p, 0)
		if all < 10 {
			t.Fatalf("%s: only %d effects", p.Name(), all)
		}
		if _, by := p.(sched.Deadline); by && (want["a"] > 130 || want["b"] > 400 || want["c"] > 150) {
			t.Errorf("deadlines are 130, 400 and 150 s, and jobs are done after %v", want)
		}
		for crash := 1; crash <= all+5; crash++ {
			if _, ended := hurry(t, p, crash); !maps.Equal(ended, want) {
				t.Errorf("%s, crash %d: done after %v, and without it after %v", p.Name(), crash, ended, want)
			}
		}
	}
}
