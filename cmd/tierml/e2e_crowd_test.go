package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
)

// crowd returns how many agents share this computer.
func crowd(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("TIERML_TEST_CROWD"))
	if err != nil {
		t.Skip("make crowd runs it")
	}
	return n
}

// A quarter of many machines on few cores is evicted, one is killed, and the controller is killed and resumed: no clock is repeated at the notice, the
// model is that of one process, the bill is exact, and SIGTERM's end leaves nothing.
func TestCrowdTrains(t *testing.T) {
	n := crowd(t)
	s := newSite(t)
	s.write("prices.csv", steadyPrices)
	job := s.job(choices{Clocks: 200, Flops: 200, Notice: "20s", Orphan: "1m"})
	s.replace(job, "count: 4", fmt.Sprint("count: ", n))
	s.replace(job, "splits: 12", fmt.Sprint("splits: ", n))
	began := time.Now()
	run := s.start("run", "-y", job)
	s.until(run, "small-1", "all machines", has(journal.Join, n+1))
	t.Logf("%d machines joined in %v", n+1, time.Since(began).Round(time.Millisecond))
	s.until(run, "small-1", "clock 10", clockIs(10))
	s.order("small-1", fmt.Sprint("evict oldest ", n/4))
	s.until(run, "small-1", "the machines' end", has(journal.Evicted, n/4))
	entries := s.journal("small-1")
	for _, e := range entries {
		if e.Kind == journal.Rollback || e.Kind == journal.Failed {
			t.Errorf("at an eviction with notice: %s %s %s", e.Kind, e.Instance, e.Why)
		}
	}
	s.until(run, "small-1", "machines in their places", has(journal.Join, n+1+n/4))
	s.order("small-1", "kill newest")
	s.until(run, "small-1", "the loss", has(journal.Failed, 1))
	run.signal(syscall.SIGKILL)
	run.wait(-1)
	run = s.start("run", "-y", "--resume", filepath.Join("runs", "small-1"))
	run.wait(0)
	s.nothingRuns()
	entries = s.journal("small-1")
	checkEntries(t, entries)
	t.Logf("%d machines were given up for their silence", len(suspects(entries, "")))
	s.report("small-1")
	if !bytes.Equal(s.read("small-1", rundir.ModelFile), s.modelOfOneProcess(s.path(job))) {
		t.Error("the model is not that of a single process")
	}
}

// Programs on many machines of few cores are evicted together: each has saved its last step in the time of the notice, and none is done twice.
func TestCrowdOfProgramsIsEvicted(t *testing.T) {
	n := crowd(t)
	s := newSite(t)
	s.write("prices.csv", steadyPrices)
	job := s.programJob(fmt.Sprintf("resources: {count: %d, any_of: [{type: c3.large, max_price: 0.10}]}", n), fmt.Sprint("tasks: ", n), "run: bash count.sh", "envs: {UNTIL: 20, "+s.gate(10)+"}")
	s.replace(job, "notice: 4s", "notice: 30s")
	s.replace(job, "every: 30s", "every: 10m") // of the market: 10 s
	s.replace("work/count.sh", "sleep 0.05\ndone", "sleep 1\ndone")
	s.replace("work/count.sh", "sleep 0.05; continue", "sleep 1; continue")
	run := s.start("run", "-y", job)
	tenth := func(entries []journal.Entry) bool {
		there := map[string]bool{}
		for _, e := range programLines(entries, journal.ProgramStep, "") {
			if e.Clock >= 10 {
				there[e.Program] = true
			}
		}
		return len(there) == n
	}
	s.until(run, "own-1", "the tenth step of each", tenth)
	s.gate(20)
	s.order("own-1", "evict all")
	evicted := time.Now()
	s.until(run, "own-1", "the machines' end", has(journal.Evicted, n))
	t.Logf("%d machines ended within %v", n, time.Since(evicted).Round(time.Millisecond))
	printed := run.wait(cli.ExitDone)
	s.nothingRuns()
	checkEntries(t, s.journal("own-1"))
	s.addsUp("own-1")
	for task := range n {
		next := 1
		for attempt := 1; next <= 20; attempt++ {
			first, last := s.counted("own-1", fmt.Sprintf("task-%d.%d.log", task, attempt))
			if first != next {
				t.Fatalf("task %d: attempt %d begins with step %d, not %d; the run printed\n%s", task, attempt, first, next, printed)
			}
			next = last + 1
		}
	}
}
