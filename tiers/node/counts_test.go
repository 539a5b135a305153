package node

import (
	"slices"
	"testing"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// The sums of counts are integers, and hold everybody's changes, in both modes.
func TestCountsAreSummedAsIntegers(t *testing.T) {
	const large = 1<<24 + 1 // no float32
	row := ps.Key{Row: 2}
	for _, deterministic := range []bool{true, false} {
		schema := &ps.Schema{Tables: []ps.Table{{Name: "counts", Kind: ps.Int32, Rows: 4, Cols: 2}},
			Partitions: 1, Splits: 2, Deterministic: deterministic}
		w := newWorkspace(schema)
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
