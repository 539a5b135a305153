package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/rundir"
)

// testdata/earlier holds what version 1038a36 wrote for one small job: the directory of a run that finished (old-1), of one that was
// stopped cleanly (old-2), and of one that was killed with its cloud and machines (old-3). testdata/0.1.0 holds what a build of that
// release wrote for a small job of each kind: finished runs (KIND-1) with their reports, and runs that were stopped cleanly (KIND-2). SITE
// stands for the directory that they worked in; jobs are job files, including those of examples and pages. Nothing in it may be changed.

// newEarlierSite returns a site in which that version has worked.
func newEarlierSite(t *testing.T, version string) *site {
	t.Helper()
	s := newSite(t)
	earlier := os.DirFS(filepath.Join("testdata", version))
	err := fs.WalkDir(earlier, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(earlier, name)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o700); err != nil {
			return err
		}
		if utf8.Valid(content) {
			content = bytes.ReplaceAll(content, []byte("SITE"), []byte(s.dir))
		}
		return os.WriteFile(s.path(name), content, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEarlierJournalsAreReported(t *testing.T) {
	t.Parallel()
	s := newEarlierSite(t, "earlier")
	checkEntries(t, s.journal("old-1"))
	report := s.report("old-1")
	if got := report.Totals.Total.String(); got != "2.797" || len(report.Instances) != 10 {
		t.Errorf("the report says $%s for %d machines; the version that wrote the journal said $2.797 for 10", got, len(report.Instances))
	}
}

// It continues to the end, and to the model of the undisturbed run, byte for byte.
func TestEarlierRunIsResumed(t *testing.T) {
	t.Parallel()
	s := newEarlierSite(t, "earlier")
	printed := s.start("run", "-y", "--resume", "runs/old-2").wait(0)
	s.nothingRuns()
	checkEntries(t, s.journal("old-2"))
	if !strings.Contains(printed, "Resuming at clock 39 of 60") {
		t.Errorf("it does not print that it goes on at clock 39:\n%s", printed)
	}
	if !bytes.Equal(s.read("old-2", rundir.ModelFile), s.read("old-1", rundir.ModelFile)) {
		t.Error("the model is not that of the run that nothing stopped")
	}
	s.report("old-2")
}

// Its checkpoints are not read: no digest vouches for them.
func TestEarlierCheckpointsAreRefused(t *testing.T) {
	t.Parallel()
	s := newEarlierSite(t, "earlier")
	before := s.read("old-3", rundir.JournalFile)
	printed := s.start("run", "-y", "--resume", "runs/old-3").wait(1)
	want := s.path("runs/old-3") + ": tierml 1038a36 (go1.26.8, linux/amd64) wrote its checkpoints, in a form that this version does not read; " +
		"resume it with that version, or run its job anew"
	if !strings.Contains(printed, want) {
		t.Errorf("it prints\n%s\nand not\n%s", printed, want)
	}
	if !bytes.Equal(s.read("old-3", rundir.JournalFile), before) {
		t.Error("the journal has changed")
	}
}

// Each kind of run has the report that it had: later additions are allowed, and text for people may differ.
func TestRunsOfTheReleaseAreReported(t *testing.T) {
	t.Parallel()
	s := newEarlierSite(t, "0.1.0")
	reports, err := filepath.Glob(s.path(rundir.Root, "*", "report.json"))
	if err != nil || len(reports) < 8 {
		t.Fatalf("%d reports: %v", len(reports), err)
	}
	for _, file := range reports {
		run := filepath.Base(filepath.Dir(file))
		checkEntries(t, s.journal(run))
		var then, now any
		if err := json.Unmarshal(must(os.ReadFile(file))(t), &then); err != nil {
			t.Fatal(err)
		}
		s.command(&now, "report", filepath.Join(rundir.Root, run), "-o", "json")
		isPartOf(t, run, then, now)
	}
	var rows []struct{ Run string }
	s.command(&rows, "ps", "-o", "json")
	for _, dir := range must(os.ReadDir(s.path(rundir.Root)))(t) {
		if !slices.ContainsFunc(rows, func(r struct{ Run string }) bool { return r.Run == dir.Name() }) {
			t.Errorf("ps does not list %s", dir.Name())
		}
	}
}

// isPartOf reports what of an older answer is missing or different in a newer one.
func isPartOf(t *testing.T, at string, then, now any) {
	t.Helper()
	switch then := then.(type) {
	case map[string]any:
		object, _ := now.(map[string]any)
		for key, value := range then {
			isPartOf(t, at+"."+key, value, object[key])
		}
	case []any:
		list, _ := now.([]any)
		if len(list) != len(then) {
			t.Errorf("%s has %d elements, and had %d", at, len(list), len(then))
			return
		}
		for i, value := range then {
			isPartOf(t, fmt.Sprintf("%s[%d]", at, i), value, list[i])
		}
	case string:
		if now != then && !strings.Contains(then, " ") {
			t.Errorf("%s is %v, and was %s", at, now, then)
		}
	case float64:
		if is, _ := now.(float64); math.Abs(is-then) > 1e-9*math.Abs(then) { // sums may be in another order
			t.Errorf("%s is %v, and was %v", at, now, then)
		}
	default:
		if now != then {
			t.Errorf("%s is %v, and was %v", at, now, then)
		}
	}
}

// Each kind of run continues from what was saved when it was stopped, to its end.
func TestRunsOfTheReleaseAreResumed(t *testing.T) {
	t.Parallel()
	s := newEarlierSite(t, "0.1.0")
	resumed := make(map[string]*process)
	s.replace("runs/train-2/job.yaml", "flops_per_vcpu: 40", "flops_per_vcpu: 400") // clocks took a second then
	for _, kind := range []string{"train", "program", "gang", "elastic", "array", "sweep"} {
		resumed[kind] = s.start("run", "-y", "--plain", "--resume", "runs/"+kind+"-2")
	}
	for kind, run := range resumed {
		printed := run.wait(0)
		checkEntries(t, s.journal(kind+"-2"))
		if report := s.report(kind + "-2"); report.Run.Outcome != "finished" {
			t.Errorf("%s ends %q: %s", kind, report.Run.Outcome, printed)
		}
		if kind == "train" {
			if !strings.Contains(printed, "Resuming at clock ") {
				t.Errorf("the training does not resume:\n%s", printed)
			}
			continue
		}
		said := s.start("logs", "runs/"+kind+"-2").wait(0)
		if !strings.Contains(said, "resumed 1") || strings.Contains(said, "starts at 0, resumed 1") {
			t.Errorf("the programs of %s do not resume:\n%s", kind, said)
		}
	}
	s.nothingRuns()
}

func TestEarlierJobFilesAreRead(t *testing.T) {
	t.Parallel()
	jobs, err := filepath.Glob("testdata/*/jobs/*.yaml")
	if err != nil || len(jobs) == 0 {
		t.Fatal("no job files:", err)
	}
	for _, job := range jobs {
		_, err := config.Load(job)
		var faults config.Faults
		if err != nil && !errors.As(err, &faults) {
			t.Errorf("%s: %v", job, err)
		}
		for _, fault := range faults {
			if !strings.Contains(fault.Problem, "cannot read") && !strings.Contains(fault.Problem, "cannot be read") && fault.Field != "checkpoint.to" { // data and folders are missing here; a local run's store needs no credentials
				t.Errorf("%s was read by an earlier version: %v", job, fault)
			}
		}
	}
}
