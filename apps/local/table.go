package local

import (
	"errors"
	"slices"
	"sync"

	"github.com/tierml/tierml/ps"
)

// stripes is the number of sets that a table's rows are dealt into. Each has a lock, so that threads which add to
// different rows seldom wait for each other.
const stripes = 64

// table is the folded state of one table and the sums of the present clock.
type table struct {
	kind    ps.Kind
	cols    int
	values  []float32
	sums    []int64
	marked  []bool // by row: in its stripe's touched
	stripes [stripes]stripe
}

// stripe is every stripes-th row.
type stripe struct {
	lock    sync.Mutex
	touched []ps.RowID
	_       [64]byte // its own cache line
}

func newTable(seed uint64, described ps.Table, id ps.TableID) *table {
	size := int(described.Rows) * described.Cols
	t := &table{
		kind:   described.Kind,
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

func (t *table) rows() int { return len(t.marked) }

func (t *table) row(id ps.RowID) []float32 {
	at := int(id) * t.cols
	return t.values[at : at+t.cols : at+t.cols]
}

func (t *table) sum(id ps.RowID) []int64 {
	at := int(id) * t.cols
	return t.sums[at : at+t.cols]
}

// add may be called by several threads at once.
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

// lock takes the lock of a row that changes.
func (t *table) lock(id ps.RowID) *sync.Mutex {
	s := &t.stripes[id%stripes]
	s.lock.Lock()
	if !t.marked[id] {
		t.marked[id] = true
		s.touched = append(s.touched, id)
	}
	return &s.lock
}

// zero says whether nothing changed, as in rows that are only read. A NaN is not zero.
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
		if t.kind == ps.Int32 {
			err = errors.Join(err, ps.FoldCounts(ps.Ints(t.row(id)), t.sum(id)))
		} else {
			ps.FoldSum(t.row(id), t.sum(id))
		}
		clear(t.sum(id))
		t.marked[id] = false
	}
	s.touched = s.touched[:0]
	return err
}
