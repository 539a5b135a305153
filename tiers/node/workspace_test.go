package node

import (
	"context"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// scripted is a split that a test controls.
type scripted struct {
	needs, evalNeeds []ps.Key
	run              func(rows apps.Rows)
}

func (s scripted) Needs(_ ps.Clock, keys []ps.Key) []ps.Key { return append(keys, s.needs...) }
func (s scripted) EvalNeeds(keys []ps.Key) []ps.Key         { return append(keys, s.evalNeeds...) }
func (s scripted) Run(_ ps.Clock, rows apps.Rows, _ bool) (apps.Stats, error) {
	s.run(rows)
	return apps.Stats{}, nil
}

var spaceSchema = ps.Schema{Partitions: 1, Splits: 2, Deterministic: true,
	Tables: []ps.Table{{Name: "dense", Rows: 8, Cols: 2}, {Name: "sparse", Rows: mostDense + 1, Cols: 1}}}

func computeAll(t interface{ Fatal(...any) }, w *workspace, evaluate bool, splits ...apps.Split) ps.Sums {
	group := w.team(splits)
	w.begin(group, 1, evaluate)
	for i := range w.given {
		w.given[i] = 100
	}
	if _, _, err := w.compute(context.Background(), group, 1, evaluate); err != nil {
		t.Fatal(err)
	}
	return w.updates(group, true)[0]
}

// Each split sees the rows as they were read and its own changes, and the sums include everybody's.
func TestSplitsDoNotSeeEachOther(t *testing.T) {
	row, far := ps.Key{Row: 3}, ps.Key{Table: 1, Row: mostDense}
	add := func(n float32) func(apps.Rows) {
		return func(rows apps.Rows) {
			if rows.Row(row)[1] != 100 {
				t.Errorf("sees %g, which another split has changed", rows.Row(row)[1])
			}
			rows.Row(row)[1] += n
			if rows.Row(row)[1] != 100+n {
				t.Error("does not see its own change")
			}
			rows.Row(far)[0]--
		}
	}
	needs := []ps.Key{row, far, {Row: 5}}
	w := newWorkspace(&spaceSchema, nil, 1)
	for range 2 { // memory is reused
		got := computeAll(t, w, false, scripted{needs: needs, run: add(1)}, scripted{needs: needs, run: add(2)})
		want := ps.Sums{Keys: []ps.Key{row, far}, Fixed: []int64{0, 3 << 32, -2 << 32}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sums (-want +got):\n%s", diff)
		}
	}
}

// lender is an application with memory of its own.
type lender struct {
	apps.Outside
	rows, gradients []float32
}

func (l lender) Space() (rows, gradients []float32) { return l.rows, l.gradients }

// The only split that reads rows works in the application's memory, if that has the right size: rows arrive there, and its gradients are
// sent from there. The gradients of several splits are summed elsewhere.
func TestApplicationsMemory(t *testing.T) {
	schema := ps.Schema{Partitions: 2, Splits: 2, Tables: []ps.Table{{Name: "t", Rows: 4, Cols: 3, Ranged: true, Rule: ps.Rule{Name: ps.Mean, Rate: 1}}}}
	keys := []ps.Key{{Row: 0}, {Row: 1}, {Row: 2}, {Row: 3}}
	split := scripted{needs: keys, run: func(rows apps.Rows) {
		for _, k := range keys {
			g := apps.UnsetGradient(rows, k)
			g[0], g[1], g[2] = rows.Row(k)[0], 0, 1
		}
	}}
	rests := scripted{run: func(apps.Rows) {}}
	for name, c := range map[string]struct {
		size            int
		splits          []apps.Split
		given, gradient bool // are lent
	}{
		"one":        {12, []apps.Split{split}, true, true},
		"with idle":  {12, []apps.Split{rests, split}, true, true},
		"two":        {12, []apps.Split{split, split}, true, false},
		"other size": {15, []apps.Split{split}, false, false},
		"no program": {0, []apps.Split{split}, false, false},
	} {
		lent := lender{rows: make([]float32, c.size), gradients: make([]float32, c.size)}
		w := newWorkspace(&schema, lent, 2)
		for range 2 {
			group := w.team(c.splits)
			w.begin(group, 1, false)
			if got := c.size > 0 && &w.given[0] == &lent.rows[0]; got != c.given {
				t.Errorf("%s: rows are lent: %v", name, got)
			}
			for i := range w.given {
				w.given[i] = float32(i)
			}
			if _, _, err := w.compute(t.Context(), group, 1, false); err != nil {
				t.Fatal(err)
			}
			sums := w.updates(group, false)
			if got := c.size > 0 && &sums[1].Float[0] == &lent.gradients[6]; got != c.gradient {
				t.Errorf("%s: gradients are lent: %v", name, got)
			}
			times := float32(1)
			if name == "two" {
				times = 2
			}
			if diff := cmp.Diff([]float32{6 * times, 0, times, 9 * times, 0, times}, sums[1].Float); diff != "" {
				t.Errorf("%s: sums (-want +got):\n%s", name, diff)
			}
		}
	}
}

// A row that is named twice, which evaluation may do, counts once.
func TestARowThatIsNamedTwiceCountsOnce(t *testing.T) {
	row := ps.Key{Row: 1}
	s := scripted{needs: []ps.Key{row, row}, evalNeeds: []ps.Key{row, {Row: 2}}, run: func(rows apps.Rows) { rows.Row(row)[0]++ }}
	got := computeAll(t, newWorkspace(&spaceSchema, nil, 1), true, s)
	if diff := cmp.Diff(ps.Sums{Keys: []ps.Key{row}, Fixed: []int64{1 << 32, 0}}, got); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
}

func TestUnrequestedRowsPanic(t *testing.T) {
	w := newWorkspace(&spaceSchema, nil, 1)
	other := scripted{needs: []ps.Key{{Row: 2}}, run: func(apps.Rows) {}}
	for name, k := range map[string]ps.Key{"nobody asked": {Row: 4}, "another split asked": {Row: 2}, "large table": {Table: 1, Row: 9}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			computeAll(t, w, false, other, scripted{needs: []ps.Key{{Row: 1}}, run: func(rows apps.Rows) { rows.Row(k) }})
		}()
	}
}

func TestDivergenceIsAnError(t *testing.T) {
	w := newWorkspace(&spaceSchema, nil, 1)
	s := scripted{needs: []ps.Key{{Row: 1}}, run: func(rows apps.Rows) { rows.Row(ps.Key{Row: 1})[0] = float32(math.NaN()) }}
	group := w.team([]apps.Split{s})
	w.begin(group, 1, false)
	if _, _, err := w.compute(t.Context(), group, 1, false); !errors.Is(err, ps.ErrOverflow) {
		t.Errorf("a row that is not a number gave %v", err)
	}
}

// Deterministic mode: the sum over groups does not depend on how splits are grouped.
func TestGroupingDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "splits")
		splits := make([]apps.Split, n)
		for i := range splits {
			key := ps.Key{Row: ps.RowID(rapid.IntRange(0, 2).Draw(t, "row"))}
			change := rapid.Float32Range(-2, 2).Draw(t, "change")
			splits[i] = scripted{needs: []ps.Key{key}, run: func(rows apps.Rows) { rows.Row(key)[0] += change }}
		}
		total := func(groups ...[]apps.Split) map[ps.Key]int64 {
			sums := map[ps.Key]int64{} // a row that was touched is there, even with a sum of zero
			for _, g := range groups {
				u := computeAll(t, newWorkspace(&smallSchema, nil, 1), false, g...)
				for i, k := range u.Keys {
					sums[k] += u.Fixed[i]
				}
			}
			return sums
		}
		at := rapid.IntRange(0, n).Draw(t, "cut")
		if diff := cmp.Diff(total(splits), total(splits[:at], splits[at:]), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("one group and two give different sums:\n%s", diff)
		}
	})
}

var smallSchema = ps.Schema{Partitions: 1, Splits: 6, Deterministic: true, Tables: []ps.Table{{Name: "t", Rows: 3, Cols: 1}}}

func TestUserDataRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 20, -1)
		u := UserData{Controller: text.Draw(t, "controller"), Token: text.Draw(t, "token"), Job: text.Draw(t, "job"),
			Listen: text.Draw(t, "listen"), VCPU: rapid.Int().Draw(t, "vcpu")}
		got, err := DecodeUserData(u.Encode())
		if err != nil || got != u {
			t.Fatalf("%+v came back as %+v, %v", u, got, err)
		}
	})
}

func TestBadUserDataIsRefused(t *testing.T) {
	for _, data := range []string{
		"", "#!/bin/sh", "null", "{}", `{"controller":"c:1","token":"t","job":"j"}`,
		`{"controller":"c:1","token":"t","job":"j","listen":"l:0","more":1}`,
		`{"controller":"c:1","token":"t","job":"j","listen":"l:0"} trailing`,
	} {
		if u, err := DecodeUserData(data); err == nil {
			t.Errorf("%q was read as %+v", data, u)
		}
	}
}

func TestASplitThatFailedToLoadIsTriedAgain(t *testing.T) {
	broken := true
	s := store{app: &toy{}, splits: map[ps.Split]*entry{}, open: func(id ps.Split) (io.ReadCloser, error) {
		if broken {
			return nil, errors.New("no such file")
		}
		return openToy(id)
	}}
	if _, err := s.load(t.Context(), 3); err == nil || s.get(3) != nil {
		t.Fatal("loaded a split that cannot be opened")
	}
	broken = false
	if data, err := s.load(t.Context(), 3); err != nil || data == nil || s.get(3) != data {
		t.Fatalf("second try: %v, %v", data, err)
	}
}

// BenchmarkWorkspace measures what a node adds to an application's own arithmetic, per row and clock.
func BenchmarkWorkspace(b *testing.B) {
	const rows, cols, groups = 2000, 16, 4
	schema := ps.Schema{Partitions: 64, Splits: groups, Deterministic: true,
		Tables: []ps.Table{{Name: "t", Rows: rows, Cols: cols}}}
	keys := make([]ps.Key, rows)
	for i := range keys {
		keys[i].Row = ps.RowID(i)
	}
	splits := make([]apps.Split, groups)
	for i := range splits {
		splits[i] = scripted{needs: keys, run: func(rows apps.Rows) {
			for _, k := range keys {
				rows.Row(k)[0]++
			}
		}}
	}
	w := newWorkspace(&schema, nil, 1)
	for b.Loop() {
		computeAll(b, w, false, splits...)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(rows*groups), "ns/row")
}

// Sums that are sent from where they were added equal those that are copied out, whichever rows have changed.
func TestSumsInPlace(t *testing.T) {
	for _, deterministic := range []bool{true, false} {
		schema := ps.Schema{Partitions: 3, Splits: 1, Deterministic: deterministic, Tables: []ps.Table{
			{Name: "w", Rows: 40, Cols: 3}, {Name: "counts", Kind: ps.Int32, Rows: 9, Cols: 2},
		}}
		var keys []ps.Key
		for id := range schema.Tables {
			for row := range schema.Tables[id].Rows {
				keys = append(keys, ps.Key{Table: ps.TableID(id), Row: ps.RowID(row)})
			}
		}
		for every := range uint64(5) { // one row in this many stays unchanged; 0: all change
			s := scripted{needs: keys, run: func(rows apps.Rows) {
				for _, k := range keys {
					if every > 0 && ps.Hash(uint64(k.Table), uint64(k.Row))%every == 0 {
						continue
					}
					if schema.Kind(k) == ps.Int32 {
						ps.Ints(rows.Row(k))[1] += int32(k.Row) + 1
					} else {
						rows.Row(k)[1] += float32(k.Row) + 1
					}
				}
			}}
			w := newWorkspace(&schema, nil, 1)
			group := w.team([]apps.Split{s})
			w.begin(group, 1, false)
			clear(w.given)
			if _, _, err := w.compute(t.Context(), group, 1, false); err != nil {
				t.Fatal(err)
			}
			want := w.updates(group, true)
			if diff := cmp.Diff(want, w.updates(group, false), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("deterministic %v, one of %d unchanged (-copied +in place):\n%s", deterministic, every, diff)
			}
		}
	}
}
