package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// mayBeTaken returns four machines of "a" along with one more that serves, and no reliable one.
func mayBeTaken(t *testing.T) Config {
	cfg := scenario(t, a())
	cfg.Reliable.Count, cfg.Checkpoints = 0, Checkpoints{Every: 20 * time.Minute, Model: 6e9, Bandwidth: 100e6}
	return cfg
}

// TierML (CMU-PDL-16-102), footnote 7: without a reliable machine the most reliable other one serves, with checkpoints. When the price
// takes all machines at 1.5 h, their work is saved within the notice, and the job continues from there at 2.5 h.
func TestEveryMachineMayBeTaken(t *testing.T) {
	calm, _ := run(t, mayBeTaken(t))
	cfg := mayBeTaken(t)
	cfg.Pools[0] = crossing()
	r, entries := run(t, cfg)
	if !r.Finished() || r.Clocks != int64(cfg.Job.Clocks) || r.Rollbacks != 1 || r.Lost > 3 {
		t.Fatalf("%+v", r)
	}
	if r.Machines != 10 || r.Evictions != 5 {
		t.Errorf("%d machines, %d evictions: want four and one that serves, twice", r.Machines, r.Evictions)
	}
	if longer := r.Runtime - calm.Runtime; longer < time.Hour || longer > 80*time.Minute {
		t.Errorf("it took %v longer than undisturbed: want the hour without machines, and starting again", longer)
	}
	checkSaves(t, entries)
}

// Machines lost without a notice leave the previous save.
func TestEveryMachineIsTakenWithoutNotice(t *testing.T) {
	often := mayBeTaken(t)
	often.Faults = []Fault{{At: 100 * time.Minute, Do: EvictNow, Target: "all"}}
	seldom := often
	seldom.Checkpoints.Every = 100 * time.Hour
	r, entries := run(t, often)
	// A clock is a minute; cuts come every 15 minutes, so that every second one is saved.
	if !r.Finished() || r.Rollbacks != 1 || r.Lost < 1 || r.Lost > 32 {
		t.Errorf("%+v", r)
	}
	checkSaves(t, entries)
	if all, _ := run(t, seldom); !all.Finished() || all.Lost < 60 {
		t.Errorf("without a checkpoint everything is lost: %+v", all)
	}
}

// checkSaves checks that checkpoints take their time, and that a roll-back returns to the newest.
func checkSaves(t *testing.T, entries []journal.Entry) {
	t.Helper()
	saved, newest := 0, int64(0)
	for _, e := range entries {
		switch e.Kind {
		case journal.Checkpoint:
			if saved, newest = saved+1, e.Clock; e.Seconds < 60 || e.Seconds > 61 {
				t.Errorf("a checkpoint of 6 GB at 100 MB/s took %v s", e.Seconds)
			}
		case journal.Rollback:
			if e.Clock != newest || newest == 0 || !strings.Contains(e.Why, "back to the checkpoint") {
				t.Errorf("back to clock %d, the newest checkpoint is of clock %d: %s", e.Clock, newest, e.Why)
			}
		}
	}
	if saved < 3 {
		t.Errorf("%d checkpoints", saved)
	}
}
