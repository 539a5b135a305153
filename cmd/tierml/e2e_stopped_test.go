package main

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// undisturbed checks that no machine was given up, none was bought after the first five, nothing was repeated, and the model is the same.
func (s *site) undisturbed(job string) {
	s.t.Helper()
	entries := s.journal("small-1")
	checkEntries(s.t, entries)
	for _, e := range entries {
		if e.Kind == journal.Failed || e.Kind == journal.Rollback {
			s.t.Errorf("%s %s: %s", e.Kind, e.Instance, e.Why)
		}
	}
	if n := count(entries, journal.Launch); n != 5 {
		s.t.Errorf("%d machines were launched, want 5", n)
	}
	s.trainedAsAlone("small-1", s.path(job))
}

// The controller is stopped for three times as long as a machine may be silent, while its cloud and machines continue: long enough that the
// machines close their streams. It finds all as they were.
func TestControllerStopped(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.job(choices{Clocks: 60, Speed: 20, Flops: 20_000, Orphan: "2m", Limits: "dead_after: 6s"})
	cloud, endpoint := s.cloud("20", "20000")
	run := s.start("run", "-y", "--endpoint", endpoint, job)
	s.until(run, "small-1", "clock 12 and all machines", func(entries []journal.Entry) bool {
		return clockIs(12)(entries) && has(journal.Join, 5)(entries)
	})
	run.signal(syscall.SIGSTOP)
	time.Sleep(18 * time.Second) // the length of the stop, not a wait for anything
	run.signal(syscall.SIGCONT)
	run.wait(0)
	cloud.signal(os.Interrupt)
	cloud.wait(0)
	s.nothingRuns()
	s.undisturbed(job)
}

// All machines are stopped until the controller says that most are silent. It waits for them.
func TestMachinesStoppedTogether(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.job(choices{Clocks: 60, Speed: 20, Flops: 20_000, Orphan: "2m", Limits: "dead_after: 6s"})
	run := s.start("run", "-y", job)
	s.until(run, "small-1", "clock 12 and all machines", func(entries []journal.Entry) bool {
		return clockIs(12)(entries) && has(journal.Join, 5)(entries)
	})
	machines := slices.DeleteFunc(s.processes(), func(pid int) bool { return pid == run.cmd.Process.Pid })
	if len(machines) != 5 {
		t.Fatalf("%d machines, want 5", len(machines))
	}
	for _, pid := range machines {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Error(err)
		}
	}
	s.until(run, "small-1", "a line about it", has(journal.Silence, 1))
	for _, pid := range machines {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	run.wait(0)
	s.nothingRuns()
	s.undisturbed(job)
}
