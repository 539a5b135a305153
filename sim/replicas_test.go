package sim

import (
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// replicas is the calm scenario of four replicas of one model.
func replicas(t *testing.T, passes bool, faults ...Fault) (Result, []journal.Entry) {
	t.Helper()
	cfg := scenario(t, a())
	cfg.Job.Splits, cfg.Job.Standby, cfg.Job.Passes, cfg.Faults = 4, true, passes, faults
	return run(t, cfg)
}

// Replicas stay to the end, whereas other jobs return machines that the last minutes do not pay for: fewer would not finish sooner. So a
// machine lost for good costs no time, and a notice undoes nothing. In deterministic jobs others take over a lost machine's work.
func TestReplicas(t *testing.T) {
	calm, _ := replicas(t, true)
	if want := 4*24*cent + 4*4*5*cent; !calm.Finished() || calm.Cost != want {
		t.Errorf("undisturbed: %+v; by the rule book it costs %s", calm, want)
	}
	if all, _ := replicas(t, false); !all.Finished() || all.Cost >= calm.Cost {
		t.Errorf("where each replica counts as many machines as at first are kept: %+v", all)
	}
	lost := []Fault{{At: time.Hour, Do: Kill}, {At: time.Hour, Do: NoCapacity, For: 10 * time.Hour}}
	three, _ := replicas(t, true, lost...)
	if more := three.Runtime - calm.Runtime; !three.Finished() || more > 10*time.Minute {
		t.Errorf("three replicas of four take %s more: %+v", more, three)
	}
	if all, _ := replicas(t, false, lost...); !all.Finished() || all.Runtime < calm.Runtime+time.Hour {
		t.Errorf("three machines do the work of four: %+v", all)
	}
	for _, do := range []Verb{Evict, EvictNow} {
		gone, _ := replicas(t, true, Fault{At: time.Hour, Do: do, Target: "all"}, Fault{At: time.Hour, Do: NoCapacity, For: time.Hour})
		if more := gone.Runtime - calm.Runtime; !gone.Finished() || more < time.Hour || more > 80*time.Minute || do == Evict && gone.Lost > 0 {
			t.Errorf("nobody computes for an hour after %s: %+v", do, gone)
		}
	}
}
