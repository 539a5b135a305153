package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tierml/tierml/internal/journal"
)

// The same job by kill and restart, on real processes: machines are reclaimed, with and without a notice, and the job restarts from its last
// checkpoint on a whole fleet. The model is that of a single process, byte for byte, and both methods are compared.
func TestRunByKillAndRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.job(choices{Clocks: 40, Flops: 30_000, Limits: "checkpoint: {every: 500ms}"})
	run := s.start("run", "-y", "--policy", "checkpoint", job)
	s.until(run, "small-1", "a checkpoint", func(e []journal.Entry) bool { return count(e, journal.Checkpoint) > 0 })
	s.order("small-1", "evict-now oldest")
	s.until(run, "small-1", "the fleet whole again", func(e []journal.Entry) bool {
		return count(e, journal.Rollback) >= 1 && count(e, journal.Join) >= 8
	})
	s.order("small-1", "kill newest")
	printed := run.wait(0)
	s.nothingRuns()

	entries := s.journal("small-1")
	checkEntries(t, entries)
	if count(entries, journal.Rollback) < 1 {
		t.Error("nothing was begun again")
	}
	for _, e := range entries {
		if e.Kind == journal.Launch && e.Tier != "transient" {
			t.Errorf("a reliable machine was bought: %+v", e)
		}
	}
	report := s.report("small-1")
	if report.Run.Policy != "checkpoint" || report.Totals.Rollbacks != count(entries, journal.Rollback) {
		t.Errorf("the report tells of %+v, %+v", report.Run, report.Totals)
	}
	s.trainedAsAlone("small-1", s.path(job))
	for _, words := range []string{"by kill and restart: no reliable machines", "roll-back", "equals the cloud's own bill"} {
		if !strings.Contains(printed, words) {
			t.Errorf("%q is not in what the run prints:\n%s", words, printed)
		}
	}
	table := s.start("report", "runs/small-1", "runs/small-1").wait(0)
	if !strings.Contains(table, "small-1 against small-1: +0.0 % cost, +0.0 % time") {
		t.Errorf("compared with itself:\n%s", table)
	}
}

// The controller of a job by kill and restart is killed while its machines live on. The next one ends them, buys others, and continues from
// the newest checkpoint to the same model; no machine is left.
func TestKillAndRestartIsResumed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.job(choices{Clocks: 40, Speed: 60, Flops: 30_000, Orphan: "2m", Limits: "checkpoint: {every: 500ms}"})
	cloud, endpoint := s.cloud("60", "30000")
	run := s.start("run", "-y", "--policy", "checkpoint", "--endpoint", endpoint, job)
	s.until(run, "small-1", "a checkpoint", func(e []journal.Entry) bool { return count(e, journal.Checkpoint) > 0 })
	run.signal(syscall.SIGKILL)
	run.wait(-1)
	before := s.journal("small-1")
	s.start("run", "-y", "--resume", filepath.Join("runs", "small-1")).wait(0)
	entries := s.journal("small-1")
	checkEntries(t, entries)

	forgotten, joins := 0, 0
	for _, e := range entries[len(before):] {
		switch {
		case e.Kind == journal.Terminated && strings.Contains(e.Why, "its controller was lost"):
			forgotten++
		case e.Kind == journal.Join:
			joins++
			if e.Clock == 0 {
				t.Errorf("%s begins at clock 0, although there is a checkpoint", e.Instance)
			}
		}
	}
	if forgotten == 0 || joins == 0 {
		t.Errorf("%d machines of the former controller were ended, %d joined afterwards", forgotten, joins)
	}
	s.noMachineLeft(endpoint)
	cloud.signal(os.Interrupt)
	cloud.wait(0)
	s.nothingRuns()
	s.trainedAsAlone("small-1", s.path(job))
}
