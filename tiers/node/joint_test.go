package node

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// joiner is an application with scripted splits, which are joined by a script, too.
type joiner struct {
	apps.App
	joined  *int // how often splits were joined
	needs   []ps.Key
	run     func(rows apps.SharedRows)
	weights []float32 // of table 0
}

func (j joiner) Join([]apps.Split, int, ps.Clock) apps.Joint {
	*j.joined++
	return j
}
func (j joiner) Needs(_ ps.Clock, keys []ps.Key) []ps.Key { return append(keys, j.needs...) }
func (j joiner) EvalNeeds(keys []ps.Key) []ps.Key         { return keys }
func (j joiner) Run(_ ps.Clock, rows apps.SharedRows, _ bool) ([]apps.Stats, error) {
	j.run(rows)
	return make([]apps.Stats, 1), nil
}
func (j joiner) Weights(t ps.TableID) []float32 {
	if t > 0 {
		return nil
	}
	return j.weights
}

var sharingSchema = ps.Schema{Partitions: 1, Splits: 2, Tables: []ps.Table{{Name: "a", Rows: 8, Cols: 2}, {Name: "b", Rows: 70, Cols: 17}}}

// The joint changes of splits in one copy are sent once, each row scaled by its weight, in memory of its own or not.
func TestSplitsWorkTogether(t *testing.T) {
	row, other, still := ps.Key{Row: 3}, ps.Key{Table: 1, Row: 69}, ps.Key{Row: 5}
	joined := 0
	app := joiner{joined: &joined, needs: []ps.Key{still, other, row}, weights: []float32{3: 0.5, 7: 0},
		run: func(rows apps.SharedRows) {
			mine, wide := rows.Table(row.Table)[row.Row], rows.Table(1)[69]
			if mine[1] != 100 || rows.Table(0)[1] != nil {
				t.Errorf("sees %g, and a row that nobody asked for: %v", mine[1], rows.Table(0)[1])
			}
			mine[1] += 4
			if cap(wide) != 32 || slices.ContainsFunc(wide[17:32], func(x float32) bool { return x != 0 }) {
				t.Errorf("room of %d numbers, %v behind the columns", cap(wide), wide[17:cap(wide)])
			}
			wide[16] -= 2
		}}
	w := newWorkspace(&sharingSchema, app, 2)
	want := ps.Sums{Keys: []ps.Key{row, other}, Float: append([]float32{0, 2}, append(make([]float32, 16), -4)...)}
	want.Float[len(want.Float)-1] = -2
	both := w.team([]apps.Split{&scripted{}, &scripted{}})
	for _, keep := range []bool{true, false, true} { // memory is reused
		w.begin(both, 1, false)
		for i := range w.given {
			w.given[i] = 100
		}
		if _, _, err := w.compute(t.Context(), both, 1, false); err != nil {
			t.Fatal(err)
		}
		got := w.updates(both, keep)[0]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sums (-want +got):\n%s", diff)
		}
		if own := &got.Float[0] != &w.given[0]; own != keep {
			t.Errorf("memory of its own: %v; want %v", own, keep)
		}
	}
	w.team(both.splits)
	w.team(both.splits[:1])
	if joined != 2 {
		t.Errorf("joined %d times; want once for each group", joined)
	}
}

// Rows are shared only in tables and jobs that support it.
func TestWhichRowsAreShared(t *testing.T) {
	counts, exact, ruled := sharingSchema, sharingSchema, sharingSchema
	counts.Tables = []ps.Table{{Name: "a", Rows: 8, Cols: 2, Kind: ps.Int32}}
	ruled.Tables = []ps.Table{{Name: "a", Rows: 8, Cols: 2, Rule: ps.Rule{Name: ps.SGD}}}
	exact.Deterministic = true
	for _, c := range []struct {
		name   string
		schema *ps.Schema
		app    apps.App
		shares bool
	}{
		{"it joins", &sharingSchema, joiner{joined: new(int)}, true},
		{"it does not", &sharingSchema, struct{ apps.App }{}, false},
		{"deterministic", &exact, joiner{joined: new(int)}, false},
		{"counts", &counts, joiner{joined: new(int)}, false},
		{"a rule", &ruled, joiner{joined: new(int)}, false},
	} {
		w := newWorkspace(c.schema, c.app, 1)
		if joint := w.team([]apps.Split{&scripted{}}).joint; (joint != nil) != c.shares {
			t.Errorf("%s: joint %v", c.name, joint)
		}
	}
}

// Splits on several threads make the same changes as one after the other, and the error is that of the first split that fails.
func TestThreads(t *testing.T) {
	const splits = 40
	fault := errors.New("a fault")
	row := ps.Key{Row: 3}
	group := make([]apps.Split, splits)
	for i := range group {
		group[i] = scripted{needs: []ps.Key{row, {Row: ps.RowID(i % 3)}}, run: func(rows apps.Rows) {
			rows.Row(row)[0]++
			rows.Row(ps.Key{Row: ps.RowID(i % 3)})[1] += float32(i)
		}}
	}
	for _, schema := range []*ps.Schema{&spaceSchema, &sharingSchema} {
		want := computeAll(t, newWorkspace(schema, nil, 1), false, group...)
		if diff := cmp.Diff(want, computeAll(t, newWorkspace(schema, nil, 4), false, group...)); diff != "" {
			t.Errorf("sums (-one thread +four):\n%s", diff)
		}
	}
	w := newWorkspace(&spaceSchema, nil, 4)
	group[7] = failing{scripted{needs: []ps.Key{row}}, fault}
	w.begin(roundSplits{splits: group}, 1, false)
	if _, at, err := w.compute(t.Context(), roundSplits{splits: group}, 1, false); at != 7 || !errors.Is(err, fault) {
		t.Errorf("split %d: %v; want split 7's error", at, err)
	}
}

type failing struct {
	scripted
	err error
}

func (f failing) Run(ps.Clock, apps.Rows, bool) (apps.Stats, error) { return apps.Stats{}, f.err }

// Rows get slots in the order of partitions, tables and rows, whatever the order of requests.
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
