package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierml/tierml/elasticity/scaling"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
)

// Workers and servers join and leave on request while real processes train: nothing is repeated, and the model is that of a single process,
// byte for byte.
func TestScaleWhileTraining(t *testing.T) {
	t.Parallel()
	for clocks := 80; !scaleWhileTraining(t, clocks); clocks *= 4 {
		if clocks > 2000 {
			t.Fatalf("the run is over before machines come and go, also with %d clocks", clocks)
		}
	}
}

// scaleWhileTraining returns false if the run ended before all requests were carried out.
func scaleWhileTraining(t *testing.T, clocks int) (inTime bool) {
	s := newSite(t)
	job := s.job(choices{Clocks: clocks, Flops: 20_000})
	run := s.start("run", "-y", job)
	s.until(run, "small-1", "clock 8 on all machines", func(entries []journal.Entry) bool {
		return clockIs(8)(entries) && count(entries, journal.Join) == 5
	})
	for _, step := range [][]string{
		{"small", "--workers", "+2", "--servers", "+1", "--wait"},
		{"small", "--reliable", "+1", "--wait"},
		{filepath.Join("runs", "small-1"), "--workers", "-3", "--servers", "-2", "--wait"},
		{"small", "--restore"},
	} {
		p := s.start(append([]string{"scale"}, step...)...)
		if err := <-p.ended; err != nil {
			if text := p.out.String(); !strings.Contains(text, "the run ") {
				t.Fatalf("tierml scale %v: %v: %s", step, err, text)
			}
			run.abandon()
			s.nothingRuns()
			return false
		}
		if text := p.out.String(); slices.Contains(step, "--wait") != strings.Contains(text, "reached") {
			t.Errorf("tierml scale %v printed:\n%s", step, text)
		}
	}
	s.refusals()
	printed := run.wait(0)
	s.nothingRuns()
	entries := s.journal("small-1")
	checkEntries(t, entries)
	if losses := count(entries, journal.Failed); losses == 0 && count(entries, journal.Rollback) > 0 {
		t.Error("a change of numbers must not roll back")
	}
	var told []string
	for _, e := range entries {
		if e.Kind == journal.Scale && e.From != e.To {
			told = append(told, e.To)
		}
	}
	if want := []string{"6 workers, 3 servers", "6 workers, 3 servers, 2 reliable machines", "3 workers, 1 server, 2 reliable machines", "4 workers, the stage's servers"}; !slices.Equal(told, want) {
		t.Errorf("asked for %q, want %q", told, want)
	}
	s.report("small-1")
	s.trainedAsAlone("small-1", s.path(job))
	if !strings.Contains(printed, "asked for 6 workers, 3 servers, in place of 4 workers, the stage's servers (tierml scale)") {
		t.Errorf("the request is not in what the run prints:\n%s", printed)
	}
	if _, err := os.Stat(s.path(rundir.Root, "small-1", scaling.File)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", scaling.File, err)
	}
	return true
}

// refusals makes impossible requests to the run under way.
func (s *site) refusals() {
	s.t.Helper()
	for want, flags := range map[string][]string{
		"more than the 8 partitions": {"--servers", "+30"},
		"workers cannot be removed":  {"--workers", "-30"},
		"the last one":               {"--servers", "-30"},
		"the last one holds":         {"--reliable", "-30"},
	} {
		p := s.start(append([]string{"scale", "small"}, flags...)...)
		err := <-p.ended
		if text := p.out.String(); err == nil || !strings.Contains(text, want) && !strings.Contains(text, "the run ") {
			s.t.Errorf("tierml scale %v: %v: %s", flags, err, text)
		}
	}
}
