package localrun

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/checkpoint"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
)

// noRows is a partition without rows.
type noRows struct{}

func (noRows) Next(int) (ps.Block, error) { return ps.Block{}, nil }

// A run goes on from what its journal says was saved, not from whatever is at its place.
func TestOnlyCheckpointsOfTheJournal(t *testing.T) {
	dir := t.TempDir()
	place := filepath.Join(dir, "checkpoints")
	schema := ps.Schema{Tables: []ps.Table{{Name: "x", Rows: 1, Cols: 1}}, Partitions: 1}
	save := func(clock ps.Clock) string {
		t.Helper()
		folder := checkpoint.FolderName(clock, "1.1")
		parts, err := checkpoint.SaveParts(t.Context(), blob.Join(place, folder), "i-1.rows", []checkpoint.Source{{Partition: 0, Rows: noRows{}}})
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
	ours, _ := save(10), save(90)
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
	line, err := json.Marshal(journal.Entry{T: time.Unix(1e9, 0).UTC(), Kind: journal.Checkpoint, Clock: 10, Model: ours, Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, JournalFile), append(line, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if saved, err := Checkpoint(dir); err != nil || saved.Path != ours || saved.Clock != 10 || len(saved.Older) != 0 {
		t.Errorf("%+v, %v; want that at clock 10", saved, err)
	}
}
