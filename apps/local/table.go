package local

import (
	"errors"
	"slices"
	"sync"

	"github.com/tierml/tierml/ps"
)

// stripes is the number of sets that a table's rows are dealt into. Each has its own lock, so that threads that update different rows
// seldom contend.
const stripes = 64

// table is the folded state of one table and the sums of the present clock.
type table struct {
	ps.Table
	cols    int
	width   int       // length of a stored row: its columns and its rule's state
	values  []float32 // rows, in stored form
	clock   ps.Clock  // the last one folded
	sums    []int64
	marked  []bool // by row: whether it is in its stripe's touched list
	stripes [stripes]stripe
}

// stripe is every stripes-th row.
type stripe struct {
	lock    sync.Mutex
	touched []ps.RowID
	_       [64]byte // padding, so that each stripe has its own cache line
}

func newTable(seed uint64, described ps.Table, id ps.TableID) *table {
	t := &table{
		Table:  described,
		cols:   described.Cols,
		width:  described.Width(),
		values: make([]float32, int(described.Rows)*described.Width()),
		sums:   make([]int64, int(described.Rows)*described.Cols),
		marked: make([]bool, described.Rows),
	}
	for row := range ps.RowID(described.Rows) {
		ps.InitRow(seed, described, id, row, t.stored(row)[:t.cols])
	}
	return t
}

func (t *table) rows() int { return len(t.marked) }

func (t *table) stored(id ps.RowID) []float32 {
	at := int(id) * t.width
	return t.values[at : at+t.width : at+t.width]
}

// row returns a row's columns, which must not be changed.
func (t *table) row(id ps.RowID) []float32 {
	if t.Rule.Name == ps.Add {
		return t.stored(id)
	}
	row := make([]float32, t.cols)
	t.Seen(row, t.stored(id), t.clock)
	return row
}

func (t *table) sum(id ps.RowID) []int64 {
	at := int(id) * t.cols
	return t.sums[at : at+t.cols]
}

// add may be called concurrently.
func (t *table) add(id ps.RowID, difference []float32) error {
	if zero(difference) {
		return nil
	}
	defer t.lock(id).Unlock()
	return ps.AddDifference(t.sum(id), difference)
}

// addCounts is add for a table of counts.
func (t *table) addCounts(id ps.RowID, given, changed []int32) error {
	if slices.Equal(given, changed) {
		return nil
	}
	defer t.lock(id).Unlock()
	return ps.AddCounts(t.sum(id), given, changed)
}

// lock locks a row's stripe and marks the row as touched.
func (t *table) lock(id ps.RowID) *sync.Mutex {
	s := &t.stripes[id%stripes]
	s.lock.Lock()
	if !t.marked[id] {
		t.marked[id] = true
		s.touched = append(s.touched, id)
	}
	return &s.lock
}

// zero reports whether nothing changed, as in rows that are only read. A NaN is not zero.
func zero(difference []float32) bool {
	for _, d := range difference {
		if d != 0 {
			return false
		}
	}
	return true
}

// fold ends the clock for one stripe's rows.
func (t *table) fold(number int) (err error) {
	s := &t.stripes[number]
	for _, id := range s.touched {
		switch row, sum := t.stored(id), t.sum(id); {
		case t.Kind == ps.Int32:
			err = errors.Join(err, ps.FoldCounts(ps.Ints(row), sum))
		case t.Rule.Name != ps.Add:
			t.step(row, sum)
		default:
			ps.FoldSum(row, sum)
		}
		clear(t.sum(id))
		t.marked[id] = false
	}
	s.touched = s.touched[:0]
	return err
}

// step applies the table's rule to a row.
func (t *table) step(row []float32, sum []int64) {
	gradient := make([]float32, t.cols)
	for i, x := range sum {
		gradient[i] = ps.FromFixed(x)
	}
	t.Step(row, gradient, t.clock+1)
}
