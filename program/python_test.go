package program

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/python/pythontest"
)

// numbers is a program of 60 steps that takes snapshots. It counts its steps in an append-only file of the state.
const numbers = `
import time, numpy, tierml
weights, generator = numpy.zeros(300_000), numpy.random.default_rng(3)
with tierml.keep(weights, generator=generator) as kept, open("state/steps", "a", buffering=1) as steps:
    for step in kept.steps(60):
        weights += generator.standard_normal(300_000)
        time.sleep(0.02)
        steps.write(f"{step}\n")
print(f"the sum is {weights.sum()!r}")
`

// With tierml.keep, a warned eviction costs no step, and one without warning those since the last save; the result is always the same.
func TestKeptProgramOnManyMachines(t *testing.T) {
	t.Parallel()
	interpreter := pythontest.Interpreter(t, "numpy")
	script := filepath.Join(t.TempDir(), "train.py")
	if err := os.WriteFile(script, []byte(numbers), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := Spec{Run: interpreter + " " + script, State: "state"}
	alone := newSite(t, spec)
	alone.begin(Start{Attempt: 1})
	result := alone.exit(1)
	if result.Code != 0 || !strings.HasPrefix(result.Tail, "the sum is ") {
		t.Fatalf("%+v", result)
	}

	spec.Store = filepath.Join(t.TempDir(), "store")
	chance := rand.New(rand.NewPCG(7, 7))
	next := Start{}
	for attempt := uint64(1); ; attempt++ {
		if attempt > 20 {
			t.Fatal("it does not end")
		}
		m := newSite(t, spec)
		next.Attempt = attempt
		started := m.begin(next)
		if started.Manifest != next.Resume {
			t.Errorf("%+v, but asked for %s", started, next.Resume)
		}
		target := started.Step + 10 + chance.Int64N(15)
		if target > 45 {
			target = 1000 // so close to its end it is not disturbed
		}
		end := waitEither(m, attempt, target)
		if end != nil {
			if end.Code != 0 || end.Tail != result.Tail {
				t.Errorf("%+v, want %q", end, result.Tail)
			}
			break
		}
		if attempt%3 == 0 { // not warned: the earlier save counts
			m.Save(0)
			saved := wait[Saved](m, nil)
			m.Close()
			next.Resume, next.ResumeDigest = saved.Manifest, saved.Digest
			continue
		}
		m.Notice(time.Now().Add(20*time.Second), false)
		e := m.exit(attempt)
		if !e.Asked && e.Code == 0 && e.Tail == result.Tail {
			break // it was done before it learned of the notice, on a busy computer
		}
		if !e.Asked || e.Code != 143 && e.Code != 0 {
			t.Errorf("%+v", e)
		}
		saved := wait(m, func(s Saved) bool { return s.Final })
		if steps := m.appears("state/steps"); strings.Count(steps, "\n") == 0 || lastLine(steps) != int(saved.Step)-1 {
			t.Errorf("saved step %d, but %d was the last one done", saved.Step, lastLine(steps))
		}
		next.Resume, next.ResumeDigest = saved.Manifest, saved.Digest
	}
}

func lastLine(text string) int {
	lines := strings.Fields(text)
	n, _ := strconv.Atoi(lines[len(lines)-1])
	return n
}

// waitEither waits for a step, or for the program's end.
func waitEither(s *site, attempt uint64, step int64) (end *Exited) {
	s.t.Helper()
	wait(s, func(e Event) bool {
		if e, ok := e.(Exited); ok && e.Attempt == attempt {
			end = &e
			return true
		}
		a, ok := e.(Advanced)
		return ok && a.Step >= step
	})
	return end
}
