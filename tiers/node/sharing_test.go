package node

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// sharer is a scripted split that shares rows.
type sharer struct {
	scripted
	shared func(rows apps.SharedRows)
}

func (s sharer) RunShared(_ ps.Clock, rows apps.SharedRows, _ bool) (apps.Stats, error) {
	s.shared(rows)
	return apps.Stats{}, nil
}

var sharingSchema = ps.Schema{Partitions: 1, Splits: 2, Tables: []ps.Table{{Name: "a", Rows: 8, Cols: 2}, {Name: "b", Rows: 70, Cols: 17}}}

// Splits that share see what those before them have changed, and what all have changed is sent once.
func TestSharingSplitsSeeEachOther(t *testing.T) {
	row, other, still := ps.Key{Row: 3}, ps.Key{Table: 1, Row: 69}, ps.Key{Row: 5}
	add := func(sees float32, keys ...ps.Key) apps.Split {
		return sharer{scripted: scripted{needs: keys}, shared: func(rows apps.SharedRows) {
			mine := rows.Table(row.Table)[row.Row]
			if mine[1] != sees {
				t.Errorf("sees %g; want %g", mine[1], sees)
			}
			mine[1]++
			if wide := rows.Table(1)[69]; wide != nil {
				if cap(wide) != 32 || slices.ContainsFunc(wide[17:32], func(x float32) bool { return x != 0 }) {
					t.Errorf("room of %d numbers, %v behind the columns", cap(wide), wide[17:cap(wide)])
				}
				wide[16] -= 2
			}
		}}
	}
	w := newWorkspace(&sharingSchema)
	all := []ps.Key{still, other, row}
	want := ps.Sums{Keys: []ps.Key{row, other}, Float: append([]float32{0, 2}, append(make([]float32, 16), -4)...)}
	for range 2 { // the memory is used again
		if diff := cmp.Diff(want, computeAll(t, w, false, add(100, all...), add(101, all...))); diff != "" {
			t.Errorf("sums (-want +got):\n%s", diff)
		}
	}
	want = ps.Sums{Keys: []ps.Key{row}, Float: []float32{0, 1}} // nobody asks for the other one any more
	if diff := cmp.Diff(want, computeAll(t, w, false, add(100, row))); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
}

// Rows are shared by all splits of a round or by none, and only of tables and jobs that are for it.
func TestWhoShares(t *testing.T) {
	key := ps.Key{Row: 1}
	apart := scripted{needs: []ps.Key{key}, run: func(rows apps.Rows) { rows.Row(key)[0]++ }}
	together := sharer{scripted: apart, shared: func(rows apps.SharedRows) { rows.Table(0)[1][0] += 10 }}
	counts, exact, ruled := sharingSchema, sharingSchema, sharingSchema
	counts.Tables = []ps.Table{{Name: "a", Rows: 8, Cols: 2, Kind: ps.Int32}}
	ruled.Tables = []ps.Table{{Name: "a", Rows: 8, Cols: 2, Rule: ps.Rule{Name: ps.SGD}}}
	exact.Deterministic = true
	for _, c := range []struct {
		name   string
		schema *ps.Schema
		splits []apps.Split
		shares bool
	}{
		{"all", &sharingSchema, []apps.Split{together, together}, true},
		{"one does not", &sharingSchema, []apps.Split{together, apart}, false},
		{"deterministic", &exact, []apps.Split{together}, false},
		{"counts", &counts, []apps.Split{together}, false},
		{"a rule", &ruled, []apps.Split{together}, false},
	} {
		w := newWorkspace(c.schema)
		w.begin(c.splits, 1, false)
		if w.sharing != c.shares {
			t.Errorf("%s: shares: %v", c.name, w.sharing)
		}
	}
}

// Rows have slots in the order of partitions, tables and rows, whoever asks for which first.
func TestRowIndex(t *testing.T) {
	schema := ps.Schema{Partitions: 3, Splits: 1, Tables: []ps.Table{
		{Name: "a", Rows: 200, Cols: 1}, {Name: "large", Rows: mostDense + 1, Cols: 1}, {Name: "b", Rows: 65, Cols: 1}}}
	x := newRowIndex(&schema)
	rapid.Check(t, func(t *rapid.T) {
		asked := rapid.SliceOf(rapid.Custom(func(t *rapid.T) ps.Key {
			table := rapid.IntRange(0, 2).Draw(t, "table")
			return ps.Key{Table: ps.TableID(table), Row: ps.RowID(rapid.Uint64Range(0, schema.Tables[table].Rows-1).Draw(t, "row"))}
		})).Draw(t, "keys")
		x.clear()
		x.ask(asked)
		keys := x.number()
		place := func(k ps.Key) [3]int { return [3]int{int(schema.PartitionOf(k)), int(k.Table), int(k.Row)} }
		for slot, k := range keys {
			p := place(k)
			if slot > 0 && slices.Compare(sliceOf(place(keys[slot-1])), sliceOf(p)) >= 0 {
				t.Fatalf("%v before %v", keys[slot-1], k)
			}
			if x.slot(k) != slot || slot < x.begins[p[0]] || slot >= x.begins[p[0]+1] || !slices.Contains(asked, k) {
				t.Fatalf("%v: slot %d of %d in %v, not %d", k, x.slot(k), len(keys), x.begins, slot)
			}
		}
		for _, k := range asked {
			if x.slot(k) < 0 {
				t.Fatalf("%v has no slot", k)
			}
		}
		for row := range ps.RowID(65) {
			if k := (ps.Key{Table: 2, Row: row}); x.slot(k) >= 0 && !slices.Contains(asked, k) {
				t.Fatalf("%v has a slot, which nobody asked for", k)
			}
		}
	})
}

func sliceOf(p [3]int) []int { return p[:] }
