package ps

import (
	"math"
	"slices"
)

// layer is the undo since a cut: each row changed since then, as it was at the cut. These rows are also those that the next cut's delivery
// must contain.
//
// Invariant: a row as it was at layers[i].cut is in layers[i]; if not, in the layer after it; if not, it has not changed since. So a row is
// saved in the top layer only, before its first change there (touch).
//
//   - pass opens layers[1] when the named clock is folded; OpenCut reads the cut while both the shard and layers[1] grow.
//   - On commit, layers[0] goes and layers[1] takes its place.
//   - UnnameCut merges layers[1] into layers[0]: rows that layers[0] lacks had not changed before the cut (inherit).
//   - A roll-back restores layers[1], then layers[0].
type layer struct {
	cut    Clock
	tables []undo
	// keysOnly layers came with a move: they know which rows changed but not their old values, since undo stays behind. Returning to their
	// cut requires the backup.
	keysOnly bool
	// full requests all rows in the next delivery: the backup does not hold this cut.
	full bool
}

// undo is a layer's rows of one table. A row's place in the set is its index in the others, too.
type undo struct {
	slotSet
	keysOnly bool
	touched  []bool // whether the row had been touched before
	saved    arena[float32]
	sparse   [][]float32
}

func newLayer(s *Schema, cut Clock) layer {
	l := layer{cut: cut, tables: make([]undo, len(s.Tables))}
	for i := range l.tables {
		if t := &s.Tables[i]; !t.Sparse {
			l.tables[i].saved = newArena[float32](t.Width())
		}
	}
	return l
}

// forget reduces a layer to the rows' keys.
func (l *layer) forget() {
	l.keysOnly = true
	for i := range l.tables {
		l.tables[i].keysOnly = true
	}
}

// remember saves a row before a change.
func (u *undo) remember(t *tableRows, slot int) {
	if u.place(slot) >= 0 {
		return
	}
	u.slotSet.add(slot)
	switch {
	case u.keysOnly:
		return
	case t.table.Sparse:
		u.sparse = append(u.sparse, t.sparse[slot]) // it is replaced, not changed
	default:
		_, saved := u.saved.add()
		copy(saved, t.cells.row(slot))
	}
	u.touched = append(u.touched, t.touched[slot])
}

// stored returns a row as it was, in stored form.
func (u *undo) stored(t *tableRows, place int) []float32 {
	switch {
	case !t.table.Sparse:
		return u.saved.row(place)
	case u.sparse[place] == nil:
		return noCells
	}
	return u.sparse[place]
}

// restore restores every row.
func (u *undo) restore(t *tableRows) {
	for place, slot := range u.slots {
		if t.table.Sparse {
			t.sparse[slot] = u.sparse[place]
		} else {
			copy(t.cells.row(int(slot)), u.saved.row(place))
		}
		t.touched[slot] = u.touched[place]
	}
}

// inherit adopts a later layer's copies of rows that had not changed before it.
func (u *undo) inherit(t *tableRows, later *undo) {
	for place, slot := range later.slots {
		if u.place(int(slot)) >= 0 {
			continue
		}
		u.slotSet.add(int(slot))
		if u.keysOnly {
			continue
		}
		if t.table.Sparse {
			u.sparse = append(u.sparse, later.sparse[place])
		} else {
			_, saved := u.saved.add()
			copy(saved, later.saved.row(place))
		}
		u.touched = append(u.touched, later.touched[place])
	}
}

func (s *Shard) top() *layer { return &s.layers[len(s.layers)-1] }

// NameCut requests a cut at a clock. ErrPassed: later work has been folded with the clock. ErrBusy: another cut or a move is in progress.
// Naming the same cut again is harmless.
func (s *Shard) NameCut(c Clock) error {
	switch {
	case s.top().cut == c || c > 0 && s.named == c:
		return nil
	case s.named != 0 || len(s.layers) > 1 || s.moving != nil:
		return ErrBusy
	case s.folded > c:
		return ErrPassed
	}
	s.named = c
	if s.folded == c {
		s.pass()
	}
	return nil
}

// UnnameCut withdraws a cut's name in any phase. If it had been passed, work continues as before.
func (s *Shard) UnnameCut(c Clock) {
	if s.named == c {
		s.named = 0
	}
	if len(s.layers) > 1 && s.layers[1].cut == c {
		for i := range s.rows.tables {
			s.layers[0].tables[i].inherit(&s.rows.tables[i], &s.layers[1].tables[i])
		}
		s.layers = s.layers[:1]
	}
}

func (s *Shard) pass() {
	s.layers = append(s.layers, newLayer(s.schema, s.named))
	s.named = 0
}

// Delivery is a cut of one partition on its way to the backup: the rows that changed since Base, as they were at Cut. A Full one contains
// every touched row and needs no base.
type Delivery struct {
	Cut, Base Clock
	Full      bool
	Rows      Block
	More      []Block // further rows, in pieces

	free []func() // release functions of added pieces, in order
}

// Add appends a piece, whose memory is released through free once it is spent.
func (d *Delivery) Add(rows Block, free func()) {
	d.free = append(d.free, free)
	if len(d.Rows.Keys) == 0 {
		d.Rows = rows
		return
	}
	d.More = append(d.More, rows)
}

// Last returns the last row; false if there is none.
func (d *Delivery) Last() (Key, bool) {
	rows := &d.Rows
	if n := len(d.More); n > 0 {
		rows = &d.More[n-1]
	}
	if len(rows.Keys) == 0 {
		return Key{}, false
	}
	return rows.Keys[len(rows.Keys)-1], true
}

// each calls f for every piece until it returns an error. With spend their memory is released one after another.
func (d *Delivery) each(spend bool, f func(rows *Block) error) error {
	for i := -1; i < len(d.More); i++ {
		rows := &d.Rows
		if i >= 0 {
			rows = &d.More[i]
		}
		if err := f(rows); err != nil {
			return err
		}
		if spend {
			*rows = Block{}
			if len(d.free) > 0 {
				d.free[i+1]()
			}
		}
	}
	return nil
}

// Passed reports whether the cut has been passed here, so that Deliver can return it.
func (s *Shard) Passed(c Clock) bool { return s.top().cut == c }

// CutBytes estimates the size of the next delivery, which an end-of-life flush would have to send.
func (s *Shard) CutBytes() int {
	bytes := 0
	for i := range s.rows.tables {
		t, u := &s.rows.tables[i], &s.layers[0].tables[i]
		if !t.table.Sparse {
			bytes += len(u.slots) * deliveryBytes(t.table.Width())
			continue
		}
		for _, slot := range u.slots {
			bytes += deliveryBytes(len(t.stored(int(slot))))
		}
	}
	return bytes
}

// deliveryBytes is the approximate size of a row in transit: its key and its cells.
func deliveryBytes(cells int) int { return 8 + 4*cells }

// Reading is the outstanding cut, read piece by piece while the shard changes: its layer keeps the old rows.
type Reading struct {
	shard     *Shard
	Cut, Base Clock
	Full      bool
	tables    [][]uint32 // slots, in the order of rows
	rows      int
	table, at int // where the next piece begins
	next      int // and how many rows precede it
}

// OpenCut returns the outstanding cut, which must have been passed. full requests all rows because the backup lacks the base.
func (s *Shard) OpenCut(c Clock, full bool) (*Reading, error) {
	if len(s.layers) != 2 || s.layers[1].cut != c {
		return nil, invalid("cut %d of partition %d is not outstanding", c, s.id)
	}
	r := &Reading{shard: s, Cut: c, Base: s.layers[0].cut, Full: full || s.layers[0].full, tables: make([][]uint32, len(s.rows.tables))}
	for i := range s.rows.tables {
		t, after := &s.rows.tables[i], &s.layers[1].tables[i]
		was := func(slot int) bool { // whether the row was touched at the cut
			if place := after.place(slot); place >= 0 {
				return after.touched[place]
			}
			return t.touched[slot]
		}
		var slots []uint32
		if r.Full {
			slots = t.order(was)
		} else {
			slots = slices.DeleteFunc(slices.Clone(s.layers[0].tables[i].slots), func(slot uint32) bool { return !was(int(slot)) })
			t.sort(slots)
		}
		r.tables[i], r.rows = slots, r.rows+len(slots)
	}
	return r, nil
}

// Rows returns the number of rows.
func (r *Reading) Rows() int { return r.rows }

// At returns how many rows have been read.
func (r *Reading) At() int { return r.next }

// Rewind starts again.
func (r *Reading) Rewind() { r.table, r.at, r.next = 0, 0, 0 }

// Next adds rows to an empty block: at least one unless none is left, at most most, and after the first no more than fit in bytes. After
// the end of the cut it returns ErrInvalid.
func (r *Reading) Next(into *Block, bytes, most int) error {
	s := r.shard
	if len(s.layers) != 2 || s.layers[1].cut != r.Cut {
		return invalid("cut %d of partition %d has ended", r.Cut, s.id)
	}
	for ; r.table < len(r.tables); r.table, r.at = r.table+1, 0 {
		t, after := &s.rows.tables[r.table], &s.layers[1].tables[r.table]
		for _, slot := range r.tables[r.table][r.at:] {
			var cells []float32
			if place := after.place(int(slot)); place >= 0 {
				cells = after.stored(t, place)
			} else {
				cells = t.stored(int(slot))
			}
			if bytes -= deliveryBytes(len(cells)); most <= 0 || bytes < 0 && len(into.Keys) > 0 {
				return nil
			}
			into.Add(t.key(int(slot)), cells)
			r.at, r.next, most = r.at+1, r.next+1, most-1
		}
	}
	return nil
}

// Deliver returns the outstanding cut in one piece.
func (s *Shard) Deliver(c Clock, full bool) (Delivery, error) {
	r, err := s.OpenCut(c, full)
	if err != nil {
		return Delivery{}, err
	}
	d := Delivery{Cut: r.Cut, Base: r.Base, Full: r.Full}
	return d, r.Next(&d.Rows, math.MaxInt, math.MaxInt)
}

// CommitCut drops the undo from before the cut. Repeating it is harmless.
func (s *Shard) CommitCut(c Clock) error {
	if s.layers[0].cut == c {
		return nil
	}
	if len(s.layers) != 2 || s.layers[1].cut != c {
		return invalid("cut %d of partition %d was never passed", c, s.id)
	}
	s.layers = s.layers[1:]
	return nil
}

// Rollback returns to a cut: rows by the undo layers, and everything after the cut is discarded. ErrNoUndo leaves the shard as it was.
func (s *Shard) Rollback(c Clock) error {
	at := -1
	for i, l := range s.layers {
		if l.cut == c && !l.keysOnly {
			at = i
		}
	}
	if at < 0 {
		return ErrNoUndo
	}
	for i := len(s.layers) - 1; i >= at; i-- {
		for t := range s.rows.tables {
			s.layers[i].tables[t].restore(&s.rows.tables[t])
		}
	}
	// The backup may hold an older cut than this, if it missed the commit. It then answers the next delivery with needFull.
	s.resetTo(c)
	return nil
}

// Base returns the newest cut known to be committed, and whether this shard can return to it by itself.
func (s *Shard) Base() (cut Clock, undo bool) { return s.layers[0].cut, !s.layers[0].keysOnly }

// CanRollback reports whether Rollback to a cut would succeed.
func (s *Shard) CanRollback(c Clock) bool {
	for _, l := range s.layers {
		if l.cut == c && !l.keysOnly {
			return true
		}
	}
	return false
}
