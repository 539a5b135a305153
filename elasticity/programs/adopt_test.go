package programs_test

import (
	"fmt"
	"testing"

	"github.com/tierml/tierml/internal/journal"
)

// A controller is killed after each of its actions in turn, and another takes over at once: programs go on, no step is done again, and no machine
// is bought beyond those that the job needs.
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
					w.list() // the provider is asked now and then
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
