package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/journal"
)

// A run of real processes is paused: its transient machines end, and no clock is done. Its controller is killed, and the next one keeps it
// paused; once resumed, it reaches the model of a single process, byte for byte, and nothing was done twice.
func TestPausedRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.job(choices{Clocks: 80, Flops: 20_000, Orphan: "2m"})
	cloud, endpoint := s.cloud("60", "20000")
	run := s.start("run", "-y", "--endpoint", endpoint, job)
	s.until(run, "small-1", "clock 12 on all machines", func(entries []journal.Entry) bool { return clockIs(12)(entries) && has(journal.Join, 5)(entries) })
	s.rests(endpoint)
	if printed := s.start("scale", "small", "--workers", "+1").wait(cli.ExitFailed); !strings.Contains(printed, "the run is paused: resume it first") {
		t.Errorf("more workers in a pause: %s", printed)
	}
	run.signal(syscall.SIGKILL)
	run.wait(-1)
	again := s.start("run", "-y", "--resume", filepath.Join("runs", "small-1"))
	s.until(again, "small-1", "another controller", has(journal.TakeOver, 1))
	s.rests(endpoint) // it is already paused
	if printed := s.start("resume", "small", "--wait").wait(0); !strings.Contains(printed, "reached") {
		t.Errorf("tierml resume printed:\n%s", printed)
	}
	if printed := s.start("resume", "small").wait(cli.ExitFailed); !strings.Contains(printed, "the run is not paused") {
		t.Errorf("tierml resume of a run that goes on: %s", printed)
	}
	printed := again.wait(0)
	cloud.signal(os.Interrupt)
	cloud.wait(0)
	s.nothingRuns()
	entries := s.journal("small-1")
	checkEntries(t, entries)
	resting, rests := false, 0
	for _, e := range entries {
		switch {
		case e.Kind == journal.Scale:
			// Requesting another pause changes nothing: only this line says that the run is paused.
			if resting = strings.HasSuffix(e.To, "paused") && e.Why == "everything is as requested"; resting {
				rests++
			}
		case e.Kind == journal.TakeOver:
			resting = false // the next controller takes stock, allows a clock or two, and pauses again
		case e.Kind == journal.ClockDone && resting:
			t.Errorf("clock %d is done in a pause", e.Clock)
		case e.Kind == journal.Rollback && count(entries, journal.Failed) == 0:
			t.Errorf("a pause must not roll back: %s", e.Why)
		}
	}
	if rests < 1 {
		t.Error("no line has it that the run rests")
	}
	if !strings.Contains(printed, "paused") {
		t.Errorf("the pause is not in what the run prints:\n%s", printed)
	}
	s.trainedAsAlone("small-1", s.path(job))
}

// rests pauses the run, or finds it paused, and checks what is left.
func (s *site) rests(endpoint string) {
	s.t.Helper()
	var standing struct {
		Reached, Paused   bool
		Workers, Reliable int
	}
	p := s.start("pause", "small", "--wait", "-q", "-o", "json")
	text := p.wait(0)
	if err := json.Unmarshal([]byte(text), &standing); err != nil {
		s.t.Fatalf("%v: %s", err, text)
	}
	if !standing.Reached || !standing.Paused || standing.Workers != 0 || standing.Reliable != 1 {
		s.t.Errorf("paused: %+v", standing)
	}
	s.poll("the cloud to end all machines but one", func() bool { // they are released before the pause is complete, and end soon after
		running := 0
		for _, i := range s.instances(endpoint) {
			if i.State == "running" || i.State == "pending" {
				running++
			}
		}
		return running == 1
	})
}
