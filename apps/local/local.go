// Package local trains in one process: no machine, no network, no cluster. It does the arithmetic of the
// parameter server's deterministic mode (docs/training.md): in every clock each split works on its own copy
// of the folded state, the differences are added up in fixed point, and the sums are folded in. What comes
// out is the undisturbed result that a distributed run of the same job must reproduce bit for bit, whatever
// happens to its machines.
package local

import (
	"errors"
	"fmt"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// Trainer holds the tables and the splits of one job. It is not safe for use by several goroutines.
type Trainer struct {
	tables []table
	splits []apps.Split
	clock  ps.Clock
	keys   []ps.Key
	copies workingCopies
}

// New loads every split and gives all rows their first values. Of the schema it uses Tables (the
// application's own are taken when there are none), Splits and Seed.
func New(app apps.App, schema ps.Schema, open apps.Open) (*Trainer, error) {
	if schema.Staleness != 0 {
		return nil, fmt.Errorf("train in one process: staleness %d: every clock sees the one before", schema.Staleness)
	}
	if schema.Splits < 1 {
		return nil, fmt.Errorf("train in one process: %d splits", schema.Splits)
	}
	if schema.Tables == nil {
		schema.Tables = app.Tables()
	}
	t := &Trainer{copies: workingCopies{places: make(map[ps.Key]int)}}
	for i, described := range schema.Tables {
		t.tables = append(t.tables, newTable(schema.Seed, described, ps.TableID(i)))
	}
	for id := range ps.Split(schema.Splits) {
		split, err := load(app, id, open, schema.Seed)
		if err != nil {
			return nil, err
		}
		t.splits = append(t.splits, split)
	}
	return t, nil
}

func load(app apps.App, id ps.Split, open apps.Open, seed uint64) (apps.Split, error) {
	file, err := open(id)
	if err != nil {
		return nil, fmt.Errorf("open split %d: %w", id, err)
	}
	split, err := app.LoadSplit(id, file, seed)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return split, nil
}

// Clock is the last finished clock.
func (t *Trainer) Clock() ps.Clock { return t.clock }

// Row gives the folded value of a row; it must not be changed. With it a Trainer is the apps.Rows that
// Evaluate and Export ask for.
func (t *Trainer) Row(k ps.Key) []float32 { return t.tables[k.Table].row(k.Row) }

// Step does one clock and gives its figures. When evaluate is set they include the held-out examples as of
// the clock's start. After an error the Trainer is not to be used.
func (t *Trainer) Step(evaluate bool) (apps.Stats, error) {
	c := t.clock + 1
	var total apps.Stats
	for id, split := range t.splits {
		stats, err := t.work(split, c, evaluate)
		if err != nil {
			return total, fmt.Errorf("clock %d, split %d: %w", c, id, err)
		}
		total = total.Add(stats)
	}
	for i := range t.tables {
		t.tables[i].fold()
	}
	t.clock = c
	return total, nil
}

// work runs one split on its own copies and adds what it changed to the sums.
func (t *Trainer) work(split apps.Split, c ps.Clock, evaluate bool) (apps.Stats, error) {
	t.keys = split.Needs(c, t.keys[:0])
	if evaluate {
		t.keys = split.EvalNeeds(t.keys)
	}
	t.copies.take(t, t.keys)
	stats, err := split.Run(c, &t.copies, evaluate)
	if err != nil {
		return stats, err
	}
	return stats, t.addDifferences()
}

func (t *Trainer) addDifferences() error {
	for i, k := range t.copies.keys {
		changed, given := t.copies.rows[i], t.Row(k)
		difference := t.copies.difference(len(given))
		ps.Difference(difference, given, changed)
		if err := t.tables[k.Table].add(k.Row, difference); err != nil {
			return fmt.Errorf("table %d, row %d: %w", k.Table, k.Row, err)
		}
	}
	return nil
}

// table is the folded state of one table and the sums of the present clock.
type table struct {
	cols    int
	values  []float32
	sums    []int64
	touched []ps.RowID
	marked  []bool // by row: in touched
}

func newTable(seed uint64, described ps.Table, id ps.TableID) table {
	size := int(described.Rows) * described.Cols
	t := table{
		cols:   described.Cols,
		values: make([]float32, size),
		sums:   make([]int64, size),
		marked: make([]bool, described.Rows),
	}
	for row := range ps.RowID(described.Rows) {
		ps.InitRow(seed, described, id, row, t.row(row))
	}
	return t
}

func (t *table) row(id ps.RowID) []float32 {
	at := int(id) * t.cols
	return t.values[at : at+t.cols : at+t.cols]
}

func (t *table) sum(id ps.RowID) []int64 {
	at := int(id) * t.cols
	return t.sums[at : at+t.cols]
}

func (t *table) add(id ps.RowID, difference []float32) error {
	if !t.marked[id] {
		t.marked[id] = true
		t.touched = append(t.touched, id)
	}
	return ps.AddDifference(t.sum(id), difference)
}

func (t *table) fold() {
	for _, id := range t.touched {
		ps.FoldSum(t.row(id), t.sum(id))
		clear(t.sum(id))
		t.marked[id] = false
	}
	t.touched = t.touched[:0]
}

// workingCopies is the apps.Rows of one split in one clock.
type workingCopies struct {
	keys   []ps.Key
	rows   [][]float32
	places map[ps.Key]int
	memory []float32
	spare  []float32
}

// take copies the rows of keys, each once, however often it is named.
func (w *workingCopies) take(t *Trainer, keys []ps.Key) {
	w.keys, w.rows = w.keys[:0], w.rows[:0]
	clear(w.places)
	size := 0
	for _, k := range keys {
		if _, ok := w.places[k]; !ok {
			w.places[k] = len(w.keys)
			w.keys = append(w.keys, k)
			size += t.tables[k.Table].cols
		}
	}
	if cap(w.memory) < size {
		w.memory = make([]float32, size)
	}
	left := w.memory[:size]
	for _, k := range w.keys {
		n := copy(left, t.Row(k))
		w.rows = append(w.rows, left[:n:n])
		left = left[n:]
	}
}

// Row gives a working copy.
func (w *workingCopies) Row(k ps.Key) []float32 {
	place, ok := w.places[k]
	if !ok {
		panic(fmt.Sprintf("local: the application uses row %d of table %d without asking for it", k.Row, k.Table))
	}
	return w.rows[place]
}

func (w *workingCopies) difference(n int) []float32 {
	if cap(w.spare) < n {
		w.spare = make([]float32, n)
	}
	return w.spare[:n]
}
