package ps

import "slices"

// rows are the rows of one partition, by table.
type rows struct {
	schema *Schema
	tables []tableRows
}

// tableRows are a partition's rows of one table. A row gets a slot when it is first mentioned; until it is touched it has its initial
// value, and is neither delivered nor moved.
type tableRows struct {
	schema *Schema
	table  *Table
	id     TableID
	slotIndex
	touched []bool         // by slot
	cells   arena[float32] // dense tables: rows by slot, Table.width cells each
	sparse  [][]float32    // sparse tables: rows by slot, replaced and never changed; nil = all 0
	whole   []float32      // memory for row
}

func newRows(s *Schema, p Partition) rows {
	r := rows{schema: s, tables: make([]tableRows, len(s.Tables))}
	for i := range r.tables {
		table := &s.Tables[i]
		r.tables[i] = tableRows{schema: s, table: table, id: TableID(i), slotIndex: newSlotIndex(s, TableID(i), p)}
		if !table.Sparse {
			r.tables[i].cells = newArena[float32](table.Width())
		}
	}
	return r
}

// slot returns a row's slot, a new one if it has none.
func (t *tableRows) slot(row RowID) int {
	if slot := t.find(row); slot >= 0 {
		return slot
	}
	slot := t.blank(row)
	if !t.table.Sparse {
		t.initial(row, t.cells.row(slot))
	}
	return slot
}

// blank assigns a slot to a row that has none; its cells are undefined.
func (t *tableRows) blank(row RowID) int {
	slot := t.add(row)
	t.touched = append(t.touched, false)
	if t.table.Sparse {
		t.sparse = append(t.sparse, nil)
	} else {
		t.cells.add()
	}
	return slot
}

// initial sets a dense row's cells to their values before any update.
func (t *tableRows) initial(row RowID, cells []float32) {
	cols := t.table.Cols
	InitRow(t.schema.Seed, *t.table, t.id, row, cells[:cols])
	clear(cells[cols:])
}

// untouched sets dst to a row without a slot, as of the folded state: penalties apply to it, too.
func (t *tableRows) untouched(row RowID, dst []float32, folded Clock) {
	if t.table.Rule.Name == Add {
		t.initial(row, dst)
		return
	}
	cells := make([]float32, t.table.Width())
	t.initial(row, cells)
	t.table.Seen(dst, cells, folded)
}

// stored returns a row in the form in which it is stored and sent. It is valid until the next slot or set.
func (t *tableRows) stored(slot int) []float32 {
	if !t.table.Sparse {
		return t.cells.row(slot)
	}
	if t.sparse[slot] == nil {
		return noCells
	}
	return t.sparse[slot]
}

// row returns a whole row to change: the stored cells of a dense table, or a copy for a sparse one, in memory that the next call reuses.
func (t *tableRows) row(slot int) []float32 {
	if !t.table.Sparse {
		return t.cells.row(slot)
	}
	if t.whole == nil {
		t.whole = make([]float32, t.table.Cols)
	}
	expandSparse(t.whole, t.stored(slot))
	return t.whole
}

// noCells is a sparse row of zeros.
var noCells = []float32{0}

// set sets a stored row.
func (t *tableRows) set(slot int, cells []float32) {
	t.touched[slot] = true
	if t.table.Sparse {
		t.sparse[slot] = slices.Clone(cells)
		return
	}
	copy(t.cells.row(slot), cells)
}

// order returns the slots for which keep is true, by row.
func (t *tableRows) order(keep func(slot int) bool) []uint32 {
	var slots []uint32
	if t.direct != nil {
		for _, at := range t.direct {
			if at != 0 && keep(int(at-1)) {
				slots = append(slots, at-1)
			}
		}
		return slots
	}
	for slot := range t.ids {
		if keep(slot) {
			slots = append(slots, uint32(slot))
		}
	}
	t.sort(slots)
	return slots
}

// sort sorts slots by row.
func (t *tableRows) sort(slots []uint32) {
	inOrder := func(a, b uint32) int {
		if t.ids[a] < t.ids[b] {
			return -1
		}
		return 1 // no two are the same
	}
	if !slices.IsSortedFunc(slots, inOrder) {
		slices.SortFunc(slots, inOrder)
	}
}

// each calls f for every touched row in the order of keys.
func (r *rows) each(f func(t *tableRows, slot int)) {
	for i := range r.tables {
		t := &r.tables[i]
		for _, slot := range t.order(func(slot int) bool { return t.touched[slot] }) {
			f(t, int(slot))
		}
	}
}

func (t *tableRows) key(slot int) Key { return Key{Table: t.id, Row: t.ids[slot]} }

// take sets every row of a block, which fits the schema.
func (r *rows) take(b *Block) {
	b.Each(r.schema, func(k Key, cells []float32) {
		t := &r.tables[k.Table]
		slot := t.find(k.Row)
		if slot < 0 {
			slot = t.blank(k.Row)
		}
		t.set(slot, cells)
	})
}

func (r *rows) clone() rows {
	c := rows{schema: r.schema, tables: slices.Clone(r.tables)}
	for i := range c.tables {
		t := &c.tables[i]
		t.slotIndex, t.cells = t.slotIndex.clone(), t.cells.clone()
		t.touched, t.sparse, t.whole = slices.Clone(t.touched), slices.Clone(t.sparse), nil
	}
	return c
}
