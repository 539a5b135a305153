package main

import (
	"os"
	"testing"
	"time"
)

// Five random schedules on small data lead to the models of undisturbed runs, byte for byte. `make soak` does as many as
// asked, on real data.
func TestTheSameAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is given, and this runs whole jobs: leave -short out")
	}
	if _, err := os.Stat("/proc/self/exe"); err != nil {
		t.Skip("no /proc here, by which machines' processes are found: run it on Linux")
	}
	dir := t.TempDir()
	workloads, err := small(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := options{schedules: 5, parallel: 2, seed: 1, workloads: workloads, dir: dir, out: t.Output()}
	if err := soak(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// A schedule follows from its seed alone.
func TestDrawRepeats(t *testing.T) {
	w := workload{clocks: 80}
	for seed := range uint64(50) {
		a, b := draw(seed, w), draw(seed, w)
		if a.String() != b.String() {
			t.Fatalf("%s\n and \n%s", a, b)
		}
		if len(a.steps) == 0 || a.notice < time.Second {
			t.Errorf("seed %d: %s", seed, a)
		}
	}
}
