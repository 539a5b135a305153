package jobrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers/checkpoint"
)

// noRows is a partition without rows.
type noRows struct{}

func (noRows) Next(int) (ps.Block, error) { return ps.Block{}, nil }

// saveAt makes a checkpoint of a run at a path, and returns its manifest.
func saveAt(t *testing.T, place string, clock ps.Clock) string {
	t.Helper()
	schema := ps.Schema{Tables: []ps.Table{{Name: "x", Rows: 1, Cols: 1}}, Partitions: 1}
	folder := fmt.Sprintf("clock-%09d-1.1", clock)
	parts, err := checkpoint.SaveParts(t.Context(), location.Join(place, folder), "i-1.rows", []checkpoint.Source{{Partition: 0, Rows: noRows{}}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := checkpoint.NewManifest("demo-1", &schema, clock, folder, parts)
	if err != nil {
		t.Fatal(err)
	}
	name, err := m.Write(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// journalOf writes a run's journal with one checkpoint.
func journalOf(t *testing.T, dir, manifest string, clock ps.Clock) {
	t.Helper()
	line, err := json.Marshal(journal.Entry{T: time.Unix(1e9, 0).UTC(), Kind: journal.Checkpoint, Clock: int64(clock), Model: manifest, Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, rundir.JournalFile), append(line, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Runs of the same name that save in the same bucket, from two laptops, have paths of their own there: neither uses the other's
// checkpoints, nor overwrites them.
func TestRunsShareABucket(t *testing.T) {
	bucket := t.TempDir()
	places, dirs, saved := map[string]bool{}, [2]string{}, [2]string{}
	for i := range dirs {
		dirs[i] = filepath.Join(t.TempDir(), "demo-1")
		if err := os.Mkdir(dirs[i], 0o700); err != nil {
			t.Fatal(err)
		}
		state, err := openState(dirs[i], &config.Job{Checkpoint: config.Checkpoint{To: bucket}})
		if err != nil {
			t.Fatal(err)
		}
		places[state.Checkpoints] = true
		clock := ps.Clock(10 + i) // the second one's is newer
		saved[i] = saveAt(t, state.Checkpoints, clock)
		journalOf(t, dirs[i], saved[i], clock)
	}
	if len(places) != 2 {
		t.Errorf("both save in %v", places)
	}
	for i, dir := range dirs {
		if found, err := Checkpoint(dir); err != nil || found.Path != saved[i] || len(found.Older)+len(found.Doubts) != 0 {
			t.Errorf("run %d: %+v, %v; want %s", i, found, err, saved[i])
		}
		journalOf(t, dir, saved[1-i], ps.Clock(11-i)) // even if it knew the other's name
		if found, err := Checkpoint(dir); err == nil {
			t.Errorf("run %d has the other's: %+v", i, found)
		}
	}
}

// A run continues from what its journal says was saved, not from anything else at its path.
func TestOnlyCheckpointsOfTheJournal(t *testing.T) {
	dir := t.TempDir()
	place := filepath.Join(dir, "checkpoints")
	ours, _ := saveAt(t, place, 10), saveAt(t, place, 90)
	state, err := json.Marshal(State{Checkpoints: place, Secret: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, StateFile), state, 0o600); err != nil {
		t.Fatal(err)
	}
	if saved, err := Checkpoint(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a journal: %+v, %v", saved, err)
	}
	journalOf(t, dir, ours, 10)
	if saved, err := Checkpoint(dir); err != nil || saved.Path != ours || saved.Clock != 10 || len(saved.Older) != 0 {
		t.Errorf("%+v, %v; want that at clock 10", saved, err)
	}
}
