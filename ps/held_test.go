package ps

import (
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// Whatever is committed while a cut is read, the reader gets the cut: with changing rows, new rows, and full deliveries, in any order and
// in pieces of any size. Memory that a delivery returns after the commit is reused.
func TestHeldIsTheCutWhateverIsCommitted(t *testing.T) {
	schema := &Schema{Partitions: 1, Splits: 1, Tables: []Table{
		{Name: "dense", Rows: 12, Cols: 3, Init: Init{Low: -1, High: 1}},
		{Name: "sparse", Kind: Int32, Rows: 9, Cols: 5, Sparse: true},
		{Name: "ranged", Rows: 7, Cols: 2, Ranged: true, Rule: Rule{Name: SGD, Rate: 0.1, Momentum: 0.5}},
	}}
	rapid.Check(t, func(t *rapid.T) {
		b := NewBackup(schema, 0)
		at := Clock(0)
		commit := func() {
			d := &Delivery{Base: at, Full: rapid.IntRange(0, 5).Draw(t, "full") == 0}
			at++
			d.Cut = at
			freed, added := 0, 0
			for id, table := range schema.Tables {
				for row := range table.Rows {
					if rapid.Bool().Draw(t, "touched") {
						cells := make([]float32, table.Width())
						for i := range cells {
							cells[i] = float32(at) + float32(i)
						}
						var piece Block
						piece.AddRow(schema, Key{TableID(id), RowID(row)}, cells)
						d.Add(piece, func() { freed++; fill(piece.Values, -1) })
						added++
					}
				}
			}
			if full, err := b.Deliver(d); full || err != nil {
				t.Fatal(full, err)
			}
			if err := b.Commit(at); err != nil || freed != added {
				t.Fatalf("%v; %d pieces of %d given back", err, freed, added)
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "before") {
			commit()
		}
		whole := func(h *Held, during func()) (got Block) {
			for {
				piece, err := h.Next(rapid.IntRange(1, 60).Draw(t, "bytes"))
				if err != nil {
					t.Fatal(err)
				}
				if len(piece.Keys) == 0 {
					return got
				}
				piece.Each(schema, func(k Key, cells []float32) { got.Add(k, cells) })
				during()
			}
		}
		quiet, err := b.Hold(at)
		if err != nil {
			t.Fatal(err)
		}
		want := whole(quiet, func() {})
		h, err := b.Hold(at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := quiet.Next(1); !errors.Is(err, ErrInvalid) {
			t.Fatalf("the reader before: %v", err)
		}
		got := whole(h, func() {
			if rapid.Bool().Draw(t, "commit") {
				commit()
			}
		})
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("read beside commits:\n%v\nin peace:\n%v", got, want)
		}
		h.Release()
		if b.held != nil {
			t.Fatal("a released reader still makes commits copy")
		}
		if _, err := b.Hold(at + 1); err == nil {
			t.Fatal("held a cut that is not there")
		}
	})
}

func fill(values []float32, x float32) {
	for i := range values {
		values[i] = x
	}
}
