package elasticity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/stopping"
)

// The toy's loss is 1 in every clock. Training ends cleanly when the loss has not improved for long enough, with or without evictions; the
// journal says why, and the model is the result, not a checkpoint.
func TestStopsWhenGoodEnough(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(seed, plain())
			w.ctrl.configure(func(c *Config) {
				c.Job.Stop, c.Job.Figure = stopping.Rules{MinImprovement: 0.1, Patience: 20}, "RMSE"
			})
			w.after(6*time.Second, func() {
				w.policy.count = 0
				w.evict(4*time.Second, w.spot()...)
			})
			if err := w.run(); err != nil {
				t.Fatal(err)
			}
			// Clocks that had begun when clock 22 was done are finished.
			if w.exported < 22 || w.exported > 24 {
				t.Errorf("the model is of clock %d, want 22 or little more", w.exported)
			}
			w.shape.clocks = int(w.exported)
			if err := w.check("finished"); err != nil {
				t.Fatal(err)
			}
			last := w.entries[len(w.entries)-1]
			if want := "RMSE 1 at clock 22 is not 10% below the 1 of clock 1"; last.Kind != journal.Done || !strings.Contains(last.Why, want) {
				t.Errorf("the last line is %s: %q, want %q", last.Kind, last.Why, want)
			}
		})
	}
}

func TestStopsWhenTimeRunsOut(t *testing.T) {
	w := newWorld(1, plain())
	w.ctrl.configure(func(c *Config) { c.Job.Stop = stopping.Rules{Time: 5 * time.Second} })
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	if w.exported < 1 || int(w.exported) >= w.shape.clocks {
		t.Errorf("the model is of clock %d of %d", w.exported, w.shape.clocks)
	}
	w.shape.clocks = int(w.exported)
	if err := w.check("finished"); err != nil {
		t.Fatal(err)
	}
}

// TestReleasesAsManyAsThePolicySays: the policy's number of machines of a pool leave, in order, and the others continue.
func TestReleasesAsManyAsThePolicySays(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(seed, plain())
			all := w.policy.count
			w.after(6*time.Second, func() { w.policy.count, w.policy.fewer = all-2, 2 })
			if err := w.run(); err != nil {
				t.Fatal(err)
			}
			if err := w.check("finished"); err != nil {
				t.Fatal(err)
			}
			given := map[string]bool{}
			for _, e := range w.entries {
				if e.Kind == journal.Terminated && strings.Contains(e.Why, "fewer are needed") {
					given[e.Instance] = true
				}
			}
			if len(given) != 2 {
				t.Errorf("%d of %d machines were given back, want 2: %v", len(given), all, given)
			}
		})
	}
}

// A run that was stopped cleanly at a clock below one that it had reached repeats the clocks in between, and says so.
func TestClocksAreRepeatedAfterAnOrderlyEnd(t *testing.T) {
	w := newWorld(1, plain())
	cfg := w.ctrl.cfg
	cfg.Job.Before = &Log{Done: 0, Furthest: 5}
	w.ctrl = New(cfg)
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	for _, e := range w.entries {
		if e.Kind == journal.ClockDone && e.Redone != (e.Clock <= 5) {
			t.Errorf("clock %d: redone is %v", e.Clock, e.Redone)
		}
	}
}
