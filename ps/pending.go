package ps

import "github.com/tierml/tierml/internal/vector"

// pending is the committed work of one clock that is not folded yet: one sum per touched row.
type pending struct {
	committed int // splits that have committed this clock
	tables    []sums
	keeps     bool     // a table's sums may use contributions' memory
	done      []func() // theirs (Contribution.Done)
}

// sums are the sums of the rows of one table. One of fixed, float and the pieces is used.
type sums struct {
	slotSet                // places of rows that have a sum
	fixed   arena[int64]   // deterministic mode
	float   arena[float32] // otherwise
	// Wide rows are in an arena or in the given memory. By place; narrow ones are in the arena, in order of places.
	wide      bool
	fixedRows [][]int64
	floatRows [][]float32
	// Sparse tables keep the given memory and add up at the fold, row by row. By place:
	fixedPieces [][][]int64
	floatPieces [][][]float32
}

// wideRow is the number of columns from which a sum is kept in the given memory: a reference takes 24 bytes. A variable for tests.
var wideRow = 64

func newPending(s *Schema) *pending {
	p := &pending{tables: make([]sums, len(s.Tables))}
	for i := range p.tables {
		u, t := &p.tables[i], &s.Tables[i]
		u.wide = t.Cols >= wideRow
		p.keeps = p.keeps || u.wide || t.Sparse
		switch {
		case t.Sparse:
		case s.Deterministic:
			u.fixed = newArena[int64](t.Cols)
		default:
			u.float = newArena[float32](t.Cols)
		}
	}
	return p
}

// reset empties it, and keeps its own memory for another clock.
func (p *pending) reset() {
	p.committed = 0
	for i := range p.tables {
		u := &p.tables[i]
		u.slotSet.reset()
		u.fixed.reset()
		u.float.reset()
		clear(u.fixedPieces)
		clear(u.floatPieces)
		u.fixedPieces, u.floatPieces = u.fixedPieces[:0], u.floatPieces[:0]
		clear(u.fixedRows)
		clear(u.floatRows)
		u.fixedRows, u.floatRows = u.fixedRows[:0], u.floatRows[:0]
	}
	p.free()
}

// free gives contributions' memory back, which is unused.
func (p *pending) free() {
	freeAll(p.done)
	clear(p.done)
	p.done = p.done[:0]
}

func freeAll(done []func()) {
	for _, f := range done {
		if f != nil {
			f()
		}
	}
}

// fixedRow returns the sum at a place in deterministic mode.
func (u *sums) fixedRow(place int) []int64 {
	if u.wide {
		return u.fixedRows[place]
	}
	return u.fixed.row(place)
}

// floatRow returns the sum at a place outside deterministic mode.
func (u *sums) floatRow(place int) []float32 {
	if u.wide {
		return u.floatRows[place]
	}
	return u.float.row(place)
}

// add sums a contribution's updates, which fit the schema. It may keep the memory of sparse rows and, if given, keep and change that of
// dense ones. After an overflow the sums are undefined: the caller treats it as fatal for the job, since a clamped sum would be a wrong
// answer.
func (p *pending) add(r *rows, u *Sums, given bool) error {
	s := r.schema
	fixed, float := u.Fixed, u.Float
	for _, k := range u.Keys {
		t := &r.tables[k.Table]
		slot := t.slot(k.Row)
		into := &p.tables[k.Table]
		var n int
		var err error
		if s.Deterministic {
			n, err = into.addFixed(t.table, slot, fixed, given)
			fixed = fixed[n:]
		} else {
			n, err = into.addFloat(t.table, slot, float, given)
			float = float[n:]
		}
		if err != nil {
			return s.rowError(k, err)
		}
	}
	return nil
}

// addFixed adds the row at the beginning of words and returns its length.
func (u *sums) addFixed(t *Table, slot int, words []int64, given bool) (n int, err error) {
	place := u.place(slot)
	if t.Sparse {
		n = sparseWords(words, t.Cols)
		if place < 0 {
			u.slotSet.add(slot)
			u.fixedPieces = append(u.fixedPieces, [][]int64{words[:n]})
			return n, nil
		}
		u.fixedPieces[place] = append(u.fixedPieces[place], words[:n])
		return n, nil
	}
	if place < 0 {
		u.slotSet.add(slot)
		sum := words[:t.Cols:t.Cols]
		if !given || !u.wide {
			_, sum = u.fixed.add()
			copy(sum, words)
		}
		if u.wide {
			u.fixedRows = append(u.fixedRows, sum)
		}
		return t.Cols, nil
	}
	return t.Cols, addSums(u.fixedRow(place), words[:t.Cols])
}

// addFloat is addFixed outside deterministic mode.
func (u *sums) addFloat(t *Table, slot int, cells []float32, given bool) (n int, err error) {
	place := u.place(slot)
	if t.Sparse {
		n = sparseCells(cells, t.Cols)
		if place < 0 {
			u.slotSet.add(slot)
			u.floatPieces = append(u.floatPieces, [][]float32{cells[:n]})
			return n, nil
		}
		u.floatPieces[place] = append(u.floatPieces[place], cells[:n])
		return n, nil
	}
	if place < 0 {
		u.slotSet.add(slot)
		sum := cells[:t.Cols:t.Cols]
		if !given || !u.wide {
			_, sum = u.float.add()
			copy(sum, cells)
		}
		if u.wide {
			u.floatRows = append(u.floatRows, sum)
		}
		return t.Cols, nil
	}
	return t.Cols, addUpdate(t.Kind, u.floatRow(place), cells[:t.Cols])
}

// addSums adds fixed-point numbers to others.
func addSums(sum, more []int64) error {
	_ = more[:len(sum)]
	for i := range sum {
		total := sum[i] + more[i]
		if (total^sum[i])&(total^more[i]) < 0 {
			return errDiverged
		}
		sum[i] = total
	}
	return nil
}

// addUpdate adds cells to cells.
func addUpdate(kind Kind, sum, update []float32) error {
	if kind == Int32 {
		return AddInts(Ints(sum), Ints(update))
	}
	vector.Axpy(1, update, sum)
	return nil
}

// applyFixed and applyFloat add the sum at a place to a whole row.
func (u *sums) applyFixed(t *Table, place int, row []float32, spare []int64) error {
	sum, err := u.fixedSum(t, place, spare)
	switch {
	case err != nil:
		return err
	case t.Kind == Int32:
		return FoldCounts(Ints(row), sum)
	}
	FoldSum(row, sum)
	return nil
}

// fixedSum returns the sum at a place, possibly in spare memory.
func (u *sums) fixedSum(t *Table, place int, spare []int64) ([]int64, error) {
	if !t.Sparse {
		return u.fixedRow(place), nil
	}
	sum := spare[:t.Cols]
	clear(sum)
	for _, piece := range u.fixedPieces[place] {
		if err := addSparseSum(sum, piece); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

func (u *sums) applyFloat(t *Table, place int, row []float32) error {
	if !t.Sparse {
		return addUpdate(t.Kind, row, u.floatRow(place))
	}
	for _, piece := range u.floatPieces[place] {
		if err := addSparse(t.Kind, row, piece); err != nil {
			return err
		}
	}
	return nil
}

// export returns the sums in the form that moves to another owner, in key order.
func (p *pending) export(r *rows) (Sums, error) {
	var out Sums
	s := r.schema
	for i := range p.tables {
		u, t := &p.tables[i], &r.tables[i]
		slots := append([]uint32(nil), u.slots...)
		t.sort(slots)
		spare, float := make([]int64, t.table.Cols), make([]float32, t.table.Cols)
		for _, slot := range slots {
			var fixed []int64
			var err error
			if place := u.place(int(slot)); s.Deterministic {
				fixed, err = u.fixedSum(t.table, place, spare)
			} else {
				clear(float)
				err = u.applyFloat(t.table, place, float)
			}
			if err != nil {
				return out, s.rowError(t.key(int(slot)), err)
			}
			s.AppendSum(&out, t.key(int(slot)), fixed, float)
		}
	}
	return out, nil
}
