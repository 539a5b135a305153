package node

import (
	"slices"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// The sums of counts are integers, and include everybody's changes, in both modes.
func TestCountsAreSummedAsIntegers(t *testing.T) {
	const large = 1<<24 + 1 // not a float32
	row := ps.Key{Row: 2}
	for _, deterministic := range []bool{true, false} {
		schema := &ps.Schema{Tables: []ps.Table{{Name: "counts", Kind: ps.Int32, Rows: 4, Cols: 2}},
			Partitions: 1, Splits: 2, Deterministic: deterministic}
		w := newWorkspace(schema, nil, 1)
		s := scripted{needs: []ps.Key{row, {Row: 0}}, run: func(rows apps.Rows) {
			counts := apps.Counts(rows, row)
			counts[0] += large
			counts[1]--
		}}
		got := computeAll(t, w, false, s, s)
		sums := got.Fixed
		if !deterministic {
			for _, n := range ps.Ints(got.Float) {
				sums = append(sums, int64(n))
			}
		}
		if want := []int64{2 * large, -2}; !slices.Equal(got.Keys, []ps.Key{row}) || !slices.Equal(sums, want) {
			t.Errorf("deterministic %v: sums %v of %v, want %v", deterministic, sums, got.Keys, want)
		}
	}
}

// Gradients of a table with a rule are summed unchanged, for one split and for two.
func TestGradientsAreSummed(t *testing.T) {
	row, other := ps.Key{Row: 2}, ps.Key{Table: 1, Row: 1}
	for _, deterministic := range []bool{true, false} {
		schema := &ps.Schema{Tables: []ps.Table{
			{Name: "w", Rows: 4, Cols: 2, Rule: ps.Rule{Name: ps.Adam, Rate: 1}},
			{Name: "sum", Rows: 2, Cols: 1},
		}, Partitions: 1, Splits: 2, Deterministic: deterministic}
		w := newWorkspace(schema, nil, 1)
		s := scripted{needs: []ps.Key{row, {Row: 0}, other}, run: func(rows apps.Rows) {
			gradient := apps.Gradient(rows, row)
			if gradient[0] != 0 || gradient[1] != 0 {
				t.Errorf("a gradient begins as %v", gradient)
			}
			gradient[1] += 0.5
			rows.Row(other)[0]++
		}}
		for round := range 4 { // memory is reused
			splits := []apps.Split{s, s}[:1+round%2]
			got := computeAll(t, w, false, splits...)
			sums := got.Fixed
			for _, x := range got.Float {
				sums = append(sums, int64(x*(1<<32)))
			}
			n := int64(len(splits)) << 31
			if want := []int64{0, n, 2 * n}; !slices.Equal(got.Keys, []ps.Key{row, other}) || !slices.Equal(sums, want) {
				t.Errorf("deterministic %v: sums %v of %v, want %v", deterministic, sums, got.Keys, want)
			}
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a table without a rule gave a gradient")
				}
			}()
			computeAll(t, w, false, scripted{needs: []ps.Key{other}, run: func(rows apps.Rows) { apps.Gradient(rows, other) }})
		}()
	}
}
