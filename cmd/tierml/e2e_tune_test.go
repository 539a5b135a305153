package main

import (
	"fmt"
	"testing"

	"github.com/tierml/tierml/internal/journal"
)

// A job whose settings are tried and changed while it trains, and which loses a machine to an eviction, has the model of a single process.
func TestTunedModel(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	job := s.job(choices{Clocks: 4000, Speed: 60, Flops: 2_000_000, Limits: "tune: true", Orphan: "2m"})
	run := s.start("run", "-y", job)
	s.until(run, "small-1", "three answers of the tuner", has(journal.Tune, 3))
	s.order("small-1", "evict oldest")
	run.wait(0)
	s.nothingRuns()
	entries := s.journal("small-1")
	checkEntries(t, entries)
	s.trainedAsAlone("small-1", s.path(job))
	settings := map[string]bool{}
	for _, e := range entries {
		if e.Kind == journal.Tune {
			settings[fmt.Sprint(must(e.TuneDetails())(t).Setting)] = true
		}
	}
	if len(settings) < 3 {
		t.Errorf("it has had the settings %v only", settings)
	}
}
