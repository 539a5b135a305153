// Package local trains in one process: no machine, no network, no cluster. It does the arithmetic of the
// parameter server's deterministic mode (docs/training.md): in every clock each split works on its own copy of
// the folded state, the differences are summed in fixed point, and the sums are folded in. The result is the
// undisturbed one that a distributed run of the same job must reproduce bit for bit, whatever happens to its
// machines. Sums in fixed point do not depend on their order, so any number of threads may work on splits.
package local

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// Trainer holds the tables and the splits of one job. It is not safe for concurrent use.
type Trainer struct {
	tables  []*table
	splits  []apps.Split
	clock   ps.Clock
	threads []*thread
}

// New loads all splits and sets all rows' initial values. It uses the schema's Tables (the
// application's own if there are none), Splits and Seed.
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
	t := &Trainer{}
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
	t.SetThreads(1)
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

// SetThreads sets how many splits are worked on concurrently, at least 1. The result does not depend on it.
func (t *Trainer) SetThreads(n int) {
	t.threads = nil
	for range min(max(n, 1), len(t.splits)) {
		t.threads = append(t.threads, newThread(t))
	}
}

// Clock returns the last finished clock.
func (t *Trainer) Clock() ps.Clock { return t.clock }

// Row returns the folded value of a row; it must not be changed. It makes a Trainer the apps.Rows for
// Evaluate and Export.
func (t *Trainer) Row(k ps.Key) []float32 { return t.tables[k.Table].row(k.Row) }

// Tables returns the tables to evaluate and export.
func (t *Trainer) Tables() apps.Rows { return t }

// Step does one clock and returns its figures. If evaluate is set, they include the held-out examples as
// of the clock's start. After an error the Trainer must not be used.
func (t *Trainer) Step(evaluate bool) (apps.Stats, error) {
	c := t.clock + 1
	measured := make([]apps.Stats, len(t.splits))
	faults := make([]error, len(t.splits))
	t.eachThread(len(t.splits), func(thread *thread, id int) {
		measured[id], faults[id] = thread.work(t.splits[id], c, evaluate)
	})
	var total apps.Stats
	for id, err := range faults {
		if err != nil {
			return total, fmt.Errorf("clock %d, split %d: %w", c, id, err)
		}
		total = total.Add(measured[id]) // in order of splits, so that sums of losses are the same bit for bit
	}
	faults = make([]error, stripes)
	t.eachThread(stripes, func(_ *thread, stripe int) {
		for i := range t.tables {
			faults[stripe] = errors.Join(faults[stripe], t.tables[i].fold(stripe))
		}
	})
	if err := errors.Join(faults...); err != nil {
		return total, fmt.Errorf("clock %d: %w", c, err)
	}
	t.clock = c
	for i := range t.tables {
		t.tables[i].clock = c
	}
	return total, nil
}

// eachThread distributes the numbers below n among the threads, one at a time, and waits until all are done. A panic
// in a thread is passed to the caller.
func (t *Trainer) eachThread(n int, do func(thread *thread, i int)) {
	if len(t.threads) == 1 {
		for i := range n {
			do(t.threads[0], i)
		}
		return
	}
	var (
		next   atomic.Int64
		wait   sync.WaitGroup
		panics = make(chan any, len(t.threads))
	)
	for _, thread := range t.threads {
		wait.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panics <- p
				}
			}()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(thread, i)
			}
		})
	}
	wait.Wait()
	select {
	case p := <-panics:
		panic(p)
	default:
	}
}

// thread is the memory of one thread.
type thread struct {
	trainer *Trainer
	keys    []ps.Key
	copies  workingCopies
	spare   []float32
}

func newThread(t *Trainer) *thread {
	thread := &thread{trainer: t}
	for i := range t.tables {
		thread.copies.ruled = thread.copies.ruled || t.tables[i].Rule.Name != ps.Add
		thread.copies.places = append(thread.copies.places, make([]place, t.tables[i].rows()))
	}
	return thread
}

// work runs one split on its own copies and adds its changes to the sums.
func (w *thread) work(split apps.Split, c ps.Clock, evaluate bool) (apps.Stats, error) {
	w.keys = split.Needs(c, w.keys[:0])
	if evaluate {
		w.keys = split.EvalNeeds(w.keys)
	}
	w.copies.take(w.trainer, w.keys)
	stats, err := split.Run(c, &w.copies, evaluate)
	if err != nil {
		return stats, err
	}
	return stats, w.addDifferences()
}

func (w *thread) addDifferences() error {
	for i, k := range w.copies.keys {
		table := w.trainer.tables[k.Table]
		if table.Rule.Name != ps.Add {
			if err := table.add(k.Row, w.copies.gradient(i)); err != nil {
				return fmt.Errorf("table %d, row %d: %w", k.Table, k.Row, err)
			}
			continue
		}
		changed, given := w.copies.rows[i], table.row(k.Row)
		if cap(w.spare) < len(given) {
			w.spare = make([]float32, len(given))
		}
		if table.Kind == ps.Int32 {
			if err := table.addCounts(k.Row, ps.Ints(given), ps.Ints(changed)); err != nil {
				return fmt.Errorf("table %d, row %d: %w", k.Table, k.Row, err)
			}
			continue
		}
		difference := w.spare[:len(given)]
		ps.Difference(difference, given, changed)
		if err := table.add(k.Row, difference); err != nil {
			return fmt.Errorf("table %d, row %d: %w", k.Table, k.Row, err)
		}
	}
	return nil
}

// workingCopies is the apps.Rows of one split in one clock.
type workingCopies struct {
	ruled  bool // some table has a rule
	keys   []ps.Key
	rows   [][]float32
	memory []float32
	starts []int     // of the rows in memory
	sums   []float32 // gradients, as memory; only if some table has a rule
	places [][]place // by table and row
	turn   uint64    // counts calls of take, so that earlier places need not be cleared
}

// place is a row's index in a list, valid if turn is the present one.
type place struct {
	turn uint64
	at   int
}

// take copies the rows of keys, each once, however often it is listed.
func (w *workingCopies) take(t *Trainer, keys []ps.Key) {
	w.keys, w.rows = w.keys[:0], w.rows[:0]
	w.turn++
	size := 0
	for _, k := range keys {
		if p := &w.places[k.Table][k.Row]; p.turn != w.turn {
			*p = place{w.turn, len(w.keys)}
			w.keys = append(w.keys, k)
			size += t.tables[k.Table].cols
		}
	}
	if cap(w.memory) < size {
		w.memory = make([]float32, size)
	}
	left := w.memory[:size]
	w.starts = w.starts[:0]
	for _, k := range w.keys {
		w.starts = append(w.starts, size-len(left))
		n := copy(left, t.Row(k))
		w.rows = append(w.rows, left[:n:n])
		left = left[n:]
	}
	if w.ruled {
		w.sums = slices.Grow(w.sums[:0], size)[:size]
		clear(w.sums)
	}
}

// Row returns a working copy.
func (w *workingCopies) Row(k ps.Key) []float32 { return w.rows[w.find(k)] }

// Gradient implements apps.Gradient.
func (w *workingCopies) Gradient(k ps.Key) []float32 {
	if !w.ruled {
		panic(fmt.Sprintf("local: a gradient for table %d, which has no rule", k.Table))
	}
	return w.gradient(w.find(k))
}

func (w *workingCopies) gradient(at int) []float32 {
	from, to := w.starts[at], w.starts[at]+len(w.rows[at])
	return w.sums[from:to:to]
}

func (w *workingCopies) find(k ps.Key) int {
	p := w.places[k.Table][k.Row]
	if p.turn != w.turn {
		panic(fmt.Sprintf("local: the application uses row %d of table %d without asking for it", k.Row, k.Table))
	}
	return p.at
}
