package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
)

// drillBinary returns the program with the applications for drills, one of which has a bug.
func drillBinary(t *testing.T) string {
	t.Helper()
	builtBinary(t)
	path := filepath.Join(t.TempDir(), "tierml")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-tags", "drill,disable_grpc_modules", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build -tags drill: %v\n%s", err, out)
	}
	return path
}

// An application that panics ends the run cleanly, under any policy: few machines are bought, all end, and the reason and the stack are on
// the console, in the journal, in the report and on the page; once the bug is fixed, the run continues from the last committed clock.
func TestACrashLoopEndsTheRun(t *testing.T) {
	t.Parallel()
	program := drillBinary(t)
	for _, policy := range []string{"tierml", "deadline"} {
		t.Run(policy, func(t *testing.T) {
			s := newSite(t)
			s.panics = true
			job := s.job(choices{Clocks: 60, Flops: 2_000_000, Policy: policy,
				Limits: "checkpoint: {every: 300ms}\ndeadline: 2014-04-02T00:00:00Z"})
			text, err := os.ReadFile(s.path(job))
			if err != nil {
				t.Fatal(err)
			}
			s.write(job, strings.NewReplacer("app: mf", "app: tally", "{rank: 4, batches: 4}", "{panic_at: 30}").Replace(string(text)))
			printed := s.startCommand(exec.Command(program, "run", "-y", "--plain", job)).wait(cli.ExitFailed)
			s.nothingRuns()

			const reason, stack = "panic: tally: a drill of clock 30", "tally.panicking.Run"
			entries := s.journal("small-1")
			if policy == "tierml" { // by kill and restart a cut is useless until it is saved
				checkEntries(t, entries)
			}
			done := entries[len(entries)-1]
			if done.Kind != journal.Done || !strings.Contains(done.Why, reason) || !strings.Contains(done.Log, stack) {
				t.Errorf("the journal ends with %+v", done)
			}
			if n := count(entries, journal.Launch); n > 20 {
				t.Errorf("%d machines were bought for a fleet of five", n)
			}
			page := string(s.read("small-1", rundir.ReportHTML))
			report := s.startCommand(exec.Command(program, "report", "runs/small-1")).wait(0)
			for where, text := range map[string]string{"console": printed, "page": page, "report": report} {
				for _, words := range []string{reason, stack, "agents keep ending by themselves"} {
					if !strings.Contains(text, words) {
						t.Errorf("%s: no %q in\n%s", where, words, text)
					}
				}
			}

			mended := s.path(rundir.Root, "small-1", rundir.JobFile)
			text, err = os.ReadFile(mended)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(mended, []byte(strings.ReplaceAll(string(text), "panic_at: 30", "panic_at: 0")), 0o644); err != nil {
				t.Fatal(err)
			}
			s.startCommand(exec.Command(program, "run", "-y", "--plain", "--resume", "runs/small-1")).wait(0)
			begun := s.journal("small-1")[len(entries):]
			for _, e := range begun {
				if e.Kind == journal.ClockDone {
					if e.Clock < 2 {
						t.Errorf("it began again at clock %d", e.Clock)
					}
					break
				}
			}
		})
	}
}
