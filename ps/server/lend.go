package server

import (
	"sync"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/wire"
)

const (
	// lendCells is the number of cells from which a read is worth locking all of its partitions at once.
	lendCells = 8 << 10
	// lendPiece is the average length of pieces from which one system call is cheaper than a copy.
	lendPiece = 1 << 10
)

// loan is an answer whose values are sent from where they are stored, with the locks that keep them unchanged.
type loan struct {
	places   *places
	slots    []*slot // locked
	statuses []wire.PartitionStatus
	stamps   []ps.Stamp
	pieces   [][]float32
	lent     bool
}

var loans = sync.Pool{New: func() any { return new(loan) }}

// lend answers a read without copying a value, if all rows are readable, in memory in the form that is sent, and in few pieces. It returns
// nil if the request must be answered the usual way.
//
// It is the only place that holds the locks of several slots. They are taken in the order of partitions, and while they are held it waits
// only for the connection, no longer than a copy would take.
func (r *reads) lend(generation ps.Generation, m *wire.Read) wire.Message {
	if r.lends == 0 || len(m.Keys)*r.lends < lendCells {
		return nil
	}
	if _, refusal := r.check(m); refusal != nil {
		return nil
	}
	l := loans.Get().(*loan)
	l.places = r.places
	r.places.term.mu.RLock()
	if r.places.term.admit(generation) != nil || !l.take(m) {
		l.end()
		return nil
	}
	l.lent = true
	return wire.LendRows(l.statuses, l.stamps, l.pieces, l.end)
}

// take locks the partitions and finds the rows. term.mu must be held for reading.
func (l *loan) take(m *wire.Read) bool {
	keys, total := m.Keys, 0
	for i, g := range m.Groups {
		if i > 0 && g.Partition <= m.Groups[i-1].Partition || int(g.Partition) >= len(l.places.slots) {
			return false
		}
		slot := l.places.slots[g.Partition]
		slot.mu.Lock()
		l.slots = append(l.slots, slot)
		if slot.state != owned || !slot.shard.CanRead(m.Clock) {
			return false
		}
		for _, k := range keys[:g.Keys] {
			row := slot.shard.View(k, m.Stored)
			if row == nil {
				return false
			}
			l.add(row)
			total += len(row)
		}
		keys = keys[g.Keys:]
		l.statuses = append(l.statuses, wire.PartitionStatus{Partition: g.Partition, Code: wire.OK})
		l.stamps = append(l.stamps, slot.shard.Stamp(m.Incarnation))
	}
	return total >= lendCells && total >= lendPiece*len(l.pieces)
}

// add appends a row, to the last piece if they are adjacent.
func (l *loan) add(row []float32) {
	if n := len(l.pieces); n > 0 {
		last := l.pieces[n-1]
		if whole := last[:cap(last)]; len(whole) >= len(last)+len(row) && &whole[len(last)] == &row[0] {
			l.pieces[n-1] = last[:len(last)+len(row)]
			return
		}
	}
	l.pieces = append(l.pieces, row)
}

// end releases the locks.
func (l *loan) end() {
	for _, slot := range l.slots {
		if l.lent {
			slot.answered()
		}
		slot.mu.Unlock()
	}
	l.places.term.mu.RUnlock()
	clear(l.slots)
	clear(l.pieces)
	l.slots, l.pieces, l.statuses, l.stamps, l.places = l.slots[:0], l.pieces[:0], l.statuses[:0], l.stamps[:0], nil
	l.lent = false
	loans.Put(l)
}

func widestView(s *ps.Schema) (cells int) {
	for i := range s.Tables {
		if t := &s.Tables[i]; !t.Sparse {
			cells = max(cells, t.Width())
		}
	}
	return cells
}
