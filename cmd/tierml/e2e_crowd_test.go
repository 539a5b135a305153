package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
)

// crowd returns how many agents share this computer: more than a plan considers good for two cores, so their jobs follow its advice and
// raise dead_after.
func crowd(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("TIERML_TEST_CROWD"))
	if err != nil {
		t.Skip("make crowd runs it")
	}
	return n
}

// A quarter of many machines on few cores is evicted, one is killed, and the controller is killed and resumed: no clock is repeated at the
// notice, the model is that of one process, the bill is exact, and ending by SIGTERM leaves nothing.
func TestCrowdTrains(t *testing.T) {
	n := crowd(t)
	s := newSite(t)
	s.write("prices.csv", steadyPrices)
	job := s.job(choices{Clocks: 50, Flops: 200, Notice: "20s", Orphan: "1m"})
	s.replace(job, "seed: 5", "seed: 5\ndead_after: 1m")
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

// Programs on many machines with few cores are evicted together: each saves its last step within the notice, and no step is done twice.
func TestCrowdOfProgramsIsEvicted(t *testing.T) {
	n := crowd(t)
	s := newSite(t)
	s.write("prices.csv", steadyPrices)
	job := s.programJob(fmt.Sprintf("resources: {count: %d, any_of: [{type: c3.large, max_price: 0.10}]}", n), fmt.Sprint("tasks: ", n), "run: bash count.sh", "envs: {UNTIL: 20, "+s.gate(10)+"}")
	s.replace(job, "hours: 0.1", "hours: 0.1\ndead_after: 1m")
	s.replace(job, "speed: 60", "speed: 6")    // machines poll for notices by the market's clock
	s.replace(job, "notice: 4s", "notice: 2m") // as on EC2
	s.replace(job, "every: 30s", "every: 20m") // of market time: 200 s
	s.replace("work/count.sh", "sleep 0.05\ndone", "sleep 1\ndone")
	s.replace("work/count.sh", "sleep 0.05; continue", "sleep 1; continue")
	run := s.start("run", "-y", job)
	fifth := func(entries []journal.Entry) bool {
		there := map[string]bool{}
		for _, e := range programLines(entries, journal.ProgramStep, "") {
			if e.Clock >= 5 { // not every step has a line
				there[e.Program] = true
			}
		}
		return len(there) == n
	}
	s.until(run, "own-1", "the fifth step of each", fifth)
	s.gate(20)
	s.order("own-1", "evict all")
	printed := run.wait(cli.ExitDone)
	s.nothingRuns()
	entries := s.journal("own-1")
	checkEntries(t, entries)
	t.Logf("%d of %d machines got a notice, %d were given up", count(entries, journal.Notice), n, count(entries, journal.Failed))
	s.addsUp("own-1")
	for task := range n {
		logs, err := filepath.Glob(filepath.Join(s.dir, "runs", "own-1", rundir.LogsDir, fmt.Sprintf("task-%d.*.log", task)))
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(logs, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) }) // in order of attempts
		next := 1
		for _, log := range logs {
			first, last := s.counted("own-1", filepath.Base(log))
			if first != next {
				t.Fatalf("%s begins with step %d, not %d; the run printed\n%s", log, first, next, printed)
			}
			next = last + 1
		}
		if next != 21 {
			t.Errorf("task %d: %v end with step %d, not 20", task, logs, next-1)
		}
	}
}
