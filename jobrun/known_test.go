package jobrun

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/ps"
)

// tunedRun returns a run whose journal has the pace of each number of servers.
func tunedRun(t *testing.T, root, name, machine string, rows uint64, pace map[int]float64) *session {
	t.Helper()
	dir := filepath.Join(root, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var text []byte
	for servers, seconds := range pace {
		details, err := journal.Pack(journal.TuneDetails{Step: "stay", Machines: 8,
			Sample: &journal.TuneSample{Setting: map[string]int{"servers": servers}, Pace: seconds, Default: 2}})
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(journal.Entry{T: time.Unix(1e9, 0).UTC(), Kind: journal.Tune, Details: details})
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, line...), '\n')
	}
	if err := os.WriteFile(filepath.Join(dir, rundir.JournalFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return &session{
		cfg: Config{
			Job: &config.Job{Train: config.Train{App: "mf"}}, Directory: dir, Log: slog.New(slog.DiscardHandler),
			Choice: planner.Resolved{Pools: []bidding.Candidate{{Type: market.InstanceType{Name: machine}}}},
		},
		schema: ps.Schema{Tables: []ps.Table{{Name: "x", Rows: rows, Cols: 1}}, Partitions: 4, Splits: 8},
	}
}

// The setting that served a run best is remembered for the next one of its kind, and for no other: not for another shape, nor on another
// machine. The newer of two similar ones stays, and the file does not grow forever.
func TestSettingsAreRemembered(t *testing.T) {
	root := t.TempDir()
	known := func(s *session) string {
		t.Helper()
		k, err := Known(s.settingsFile(), s.cfg.Job, &s.schema, s.cfg.Choice)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(k)
	}
	first := tunedRun(t, root, "a-1", "c3.xlarge", 10, map[int]float64{2: 1.5, 4: .9, 6: 1.1})
	if got := known(first); got != "[]" {
		t.Errorf("known before any run: %s", got)
	}
	first.saveSetting()
	if got, want := known(first), "[{8 map[servers:4]}]"; got != want {
		t.Errorf("known are %s, want %s", got, want)
	}
	for _, other := range []*session{
		tunedRun(t, root, "a-2", "c3.xlarge", 11, nil), tunedRun(t, root, "a-3", "c3.2xlarge", 10, nil),
	} {
		if got := known(other); got != "[]" {
			t.Errorf("%s knows %s of another kind", other.cfg.Directory, got)
		}
		other.saveSetting() // nothing was tuned
	}
	again := tunedRun(t, root, "a-4", "c3.xlarge", 10, map[int]float64{2: .5, 4: .9})
	again.saveSetting()
	if got, want := known(first), "[{8 map[servers:2]}]"; got != want {
		t.Errorf("known are %s, want %s", got, want)
	}
	for i := range mostRemembered + 5 {
		tunedRun(t, root, fmt.Sprintf("b-%d", i), "c3.xlarge", uint64(100+i), map[int]float64{1: 1, 2: 2}).saveSetting()
	}
	if all, err := readRemembered(first.settingsFile()); err != nil || len(all) != mostRemembered {
		t.Errorf("%d are remembered, %v", len(all), err)
	}
	if err := os.WriteFile(first.settingsFile(), []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Known(first.settingsFile(), first.cfg.Job, &first.schema, first.cfg.Choice); err == nil {
		t.Error("a damaged file is no error")
	}
}

// Jobs of a service share the file, and none loses what another writes when both end together.
func TestSettingsOfJobsThatEndTogether(t *testing.T) {
	root := t.TempDir()
	var jobs []*session
	for i := range 8 {
		jobs = append(jobs, tunedRun(t, root, fmt.Sprintf("a-%d", i), "c3.xlarge", uint64(10+i), map[int]float64{2: 1.5, 4: .9}))
	}
	var ending sync.WaitGroup
	for _, job := range jobs {
		ending.Go(job.saveSetting)
	}
	ending.Wait()
	for _, job := range jobs {
		known, err := Known(job.settingsFile(), job.cfg.Job, &job.schema, job.cfg.Choice)
		if err != nil || len(known) != 1 || known[0].Setting["servers"] != 4 {
			t.Errorf("%s: known are %v, %v", job.cfg.Directory, known, err)
		}
	}
}
