package ps

import (
	"errors"
	"slices"
	"testing"
)

// A checkpoint returns the rows, at its clock, to an owner and to its backup alike.
func TestRestore(t *testing.T) {
	schema := smallSchema(true, 0)
	const at = Clock(7)
	rows := &Block{}
	for i, k := range keysOf(schema, 0) {
		row := make([]float32, schema.Tables[k.Table].Width())
		for j := range row {
			row[j] = float32(i*10 + j)
		}
		rows.AddRow(schema, k, row)
	}
	shard, err := RestoreShard(schema, 0, at, rows)
	if err != nil {
		t.Fatal(err)
	}
	backup, err := RestoreBackup(schema, 0, at, rows)
	if err != nil {
		t.Fatal(err)
	}
	promoted, err := backup.Promote(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Shard{shard, promoted} {
		if s.Folded() != at || s.Mark(0) != at || !s.CanRollback(at) || !s.CanRead(at+1) || s.CanRead(at+2) {
			t.Errorf("a restored shard stands at clock %d, split 0 at %d; want %d", s.Folded(), s.Mark(0), at)
		}
		rows.Each(schema, func(k Key, cells []float32) {
			got, want := make([]float32, schema.Cols(k)), make([]float32, schema.Cols(k))
			if table := &schema.Tables[k.Table]; table.Rule.Name != Add {
				whole := make([]float32, table.Width())
				if s.Stored(k, whole); !sameBits(whole, cells) {
					t.Errorf("row %v is stored as %v, want %v", k, whole, cells)
				}
				table.Seen(want, cells, at)
			} else {
				schema.TakeRow(k, cells, want)
			}
			if s.Read(k, got); !slices.Equal(got, want) {
				t.Errorf("row %v: %v, want %v", k, got, want)
			}
		})
	}
	if _, err := RestoreShard(schema, 1, at, rows); !errors.Is(err, ErrInvalid) {
		t.Errorf("rows of another partition: %v, want ErrInvalid", err)
	}
}
