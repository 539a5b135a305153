package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/rundir"
)

// testdata/earlier holds what version 1038a36 wrote for one small job: the directory of a run that finished (old-1), of one
// that was stopped in order (old-2), and of one that was killed with its cloud and machines (old-3). SITE stands for the
// directory that it worked in. testdata/earlier/jobs are the job files of its examples and pages.

// newEarlierSite returns a site in which that version has worked.
func newEarlierSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	earlier := os.DirFS("testdata/earlier")
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
		if !strings.HasSuffix(name, ".rows") && !strings.HasSuffix(name, ".safetensors") && !strings.Contains(name, "/splits/") {
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
	s := newEarlierSite(t)
	checkEntries(t, s.journal("old-1"))
	report := s.report("old-1")
	if got := report.Totals.Total.String(); got != "2.797" || len(report.Instances) != 10 {
		t.Errorf("the report says $%s for %d machines; the version that wrote the journal said $2.797 for 10", got, len(report.Instances))
	}
}

// It proceeds to the end, and to the model of the run that nothing stopped, byte for byte.
func TestEarlierRunIsResumed(t *testing.T) {
	t.Parallel()
	s := newEarlierSite(t)
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
	s := newEarlierSite(t)
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

func TestEarlierJobFilesAreRead(t *testing.T) {
	t.Parallel()
	jobs, err := filepath.Glob("testdata/earlier/jobs/*.yaml")
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
			if !strings.Contains(fault.Problem, "cannot read") && fault.Field != "checkpoint.to" { // data is not there; a local run's store wants no credentials
				t.Errorf("%s was read by an earlier version: %v", job, fault)
			}
		}
	}
}
