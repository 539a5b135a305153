package checkpoint

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"errors"

	"github.com/tierml/tierml/apps/model"
	"github.com/tierml/tierml/ps"
)

func example() (ps.Schema, [][]float32) {
	schema := ps.Schema{
		Tables:     []ps.Table{{Name: "users", Rows: 5, Cols: 2}, {Name: "items", Rows: 3, Cols: 3}, {Name: "counts", Kind: ps.Int32, Rows: 2, Cols: 2}},
		Partitions: 4, Splits: 1,
	}
	values := make([][]float32, len(schema.Tables))
	for id, t := range schema.Tables {
		for i := range int(t.Rows) * t.Cols {
			if t.Kind == ps.Int32 {
				values[id] = append(values[id], ps.Cells([]int32{int32(1<<24 + 1 - i)})...)
			} else {
				values[id] = append(values[id], float32(100*id+i))
			}
		}
	}
	return schema, values
}

func TestRoundTrip(t *testing.T) {
	schema, values := example()
	path := filepath.Join(t.TempDir(), "checkpoint.safetensors")
	if err := Save(path, schema, 42, values); err != nil {
		t.Fatal(err)
	}
	clock, got, err := Load(path, schema)
	if err != nil || clock != 42 {
		t.Fatalf("clock %d, %v; want 42", clock, err)
	}
	for id := range values {
		if !slices.Equal(got[id], values[id]) {
			t.Errorf("table %d: %v, want %v", id, got[id], values[id])
		}
	}
	if c, err := Clock(path); err != nil || c != 42 {
		t.Errorf("Clock: %d, %v", c, err)
	}
}

// Every row is in exactly one partition, with its values.
func TestPartitions(t *testing.T) {
	schema, values := example()
	seen := map[ps.Key]bool{}
	for i, block := range Partitions(schema, values, []ps.Partition{3, 0, 2, 1}) {
		p := []ps.Partition{3, 0, 2, 1}[i]
		if err := block.Check(&schema, p); err != nil {
			t.Errorf("partition %d: %v", p, err)
		}
		block.Each(&schema, func(k ps.Key, row []float32) {
			cols := schema.Cols(k)
			if want := values[k.Table][int(k.Row)*cols : (int(k.Row)+1)*cols]; seen[k] || !slices.Equal(row, want) {
				t.Errorf("row %v: %v, want %v, seen before: %v", k, row, want, seen[k])
			}
			seen[k] = true
		})
	}
	if len(seen) != 10 {
		t.Errorf("%d rows, want 10", len(seen))
	}
}

func TestRefuses(t *testing.T) {
	schema, values := example()
	dir := t.TempDir()
	path := filepath.Join(dir, "checkpoint.safetensors")
	if err := Save(path, schema, 1, values); err != nil {
		t.Fatal(err)
	}
	other := schema
	other.Tables = []ps.Table{{Name: "users", Rows: 5, Cols: 3}}
	if _, _, err := Load(path, other); err == nil || !strings.Contains(err.Error(), "users of 5 x 3") {
		t.Errorf("another job's tables: %v", err)
	}
	plain := filepath.Join(dir, "model.safetensors")
	if err := (model.Model{Tensors: []model.Tensor{{Name: "users", Shape: []int{1}, Float: []float32{1}}}}).Save(plain); err != nil {
		t.Fatal(err)
	}
	if _, err := Clock(plain); err == nil || !strings.Contains(err.Error(), "is no checkpoint") {
		t.Errorf("a model that is no checkpoint: %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-3] ^= 1 // of a value
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Clock(path); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "its checksum") {
		t.Errorf("a checkpoint with another value: %v", err)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(path, schema); !errors.Is(err, ErrDamaged) {
		t.Errorf("a torn checkpoint: %v", err)
	}
	if _, err := Clock(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no checkpoint: %v, want fs.ErrNotExist", err)
	}
}
