package child

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/python/pythontest"
)

// loop is a program whose steps only add 1 to its model.
const loop = `
import os, numpy as np, tierml
model = {"w": np.zeros(int(os.environ["FLOATS"]), np.float32)}
with tierml.DiLoCo(model) as run:
    for step in run.steps():
        model["w"] += 1
`

// python starts loop as the program of a bench.
func (b *bench) python(t testing.TB, floats string) (pid int) {
	cmd := exec.Command(pythontest.Interpreter(t, "numpy"), "-c", loop)
	lib, err := filepath.Abs("../../../python")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "PYTHONPATH="+lib, "PYTHONDONTWRITEBYTECODE=1", "FLOATS="+floats, Variable+"="+<-b.place)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	return cmd.Process.Pid
}

// The Python package speaks with the agent.
func TestPython(t *testing.T) {
	b := newBench(t, nil)
	b.python(t, "7")
	for round := range 3 {
		o := order(round + 1)
		o.Steps = 1 + round
		d, delta, err := b.Round(t.Context(), o, ones)
		if err != nil || d.Steps != o.Steps || delta[6] != -float32(o.Steps) {
			t.Fatalf("round %d: %+v %v %v", round, d, delta, err)
		}
	}
	names, file, err := Initial(t.Context(), b.store)
	if err != nil || len(names) != 1 || names[0] != "w" {
		t.Fatal(names, err)
	}
	_ = file.Close()
}

// BenchmarkCall is an empty round of one step between the agent and Python: its duration, in the best twentieth of calls, and the two
// processes' processor time, which other work on the host hardly changes.
func BenchmarkCall(b *testing.B) {
	for _, floats := range []string{"8", "4194304"} { // the latter are 16 MiB
		b.Run(floats, func(b *testing.B) {
			bench := newBench(b, func(c *Config) { c.Terms.Floats = 1 << 30 })
			pid := bench.python(b, floats)
			o := apps.Order{Clock: 1, Steps: 1}
			if _, _, err := bench.Round(b.Context(), o, ones); err != nil {
				b.Fatal(err)
			}
			agent, program := worked(b, os.Getpid()), worked(b, pid)
			var took []time.Duration
			for b.Loop() {
				sent := time.Now()
				if _, _, err := bench.Round(b.Context(), o, func([]float32) {}); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(sent))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/20].Microseconds()), "best-us")
			b.ReportMetric((worked(b, os.Getpid())-agent).Seconds()*1e6/float64(b.N), "agent-us/op")
			b.ReportMetric((worked(b, pid)-program).Seconds()*1e6/float64(b.N), "python-us/op")
		})
	}
}

// worked returns a process's processor time.
func worked(t testing.TB, pid int) (all time.Duration) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		t.Skip("no /proc with times")
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		var ns int64
		if _, scan := fmt.Sscan(string(text), &ns); err != nil || scan != nil {
			t.Fatal(err, scan)
		}
		all += time.Duration(ns)
	}
	return all
}
