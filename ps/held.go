package ps

// Held is a backup's committed cut, to be read piece by piece while later cuts are committed. Rows that they replace are
// copied first (copy on write), so neither waits for the other.
type Held struct {
	schema *Schema
	backup *Backup
	cut    Clock
	rows   rows  // the backup's own, until a full delivery replaces them
	layer  layer // old versions of rows that were replaced since

	table   int
	ordered bool     // order belongs to the table
	order   []uint32 // slots of the table that were touched at its turn
}

// Hold returns the committed cut to read. ErrInvalid: it is another one. A previous reader is left with nothing to read; Release ends the
// copying.
func (b *Backup) Hold(c Clock) (*Held, error) {
	if b.lacking || b.cut != c {
		return nil, invalid("partition %d: backup holds cut %d, not %d", b.id, b.cut, c)
	}
	if b.held != nil {
		b.held.Release()
	}
	b.held = &Held{schema: b.schema, backup: b, cut: c, rows: b.rows, layer: newLayer(b.schema, c)}
	return b.held, nil
}

// Release ends reading.
func (h *Held) Release() {
	if h.backup != nil && h.backup.held == h {
		h.backup.held = nil
	}
	h.backup, h.rows, h.layer, h.order = nil, rows{}, layer{}, nil
}

// Cut returns the clock of the cut.
func (h *Held) Cut() Clock { return h.cut }

// keep copies what a delivery is about to replace.
func (h *Held) keep(b *Block) {
	for _, k := range b.Keys {
		t := &h.rows.tables[k.Table]
		h.layer.tables[k.Table].remember(t, t.slot(k.Row))
	}
}

// Next returns more rows, in key order, of about this many bytes. None: the end. ErrInvalid: it was released.
func (h *Held) Next(bytes int) (Block, error) {
	var d Block
	if h.backup == nil {
		return d, invalid("cut %d is read, and was released", h.cut)
	}
	for h.table < len(h.rows.tables) {
		t, u := &h.rows.tables[h.table], &h.layer.tables[h.table]
		if !h.ordered {
			h.order, h.ordered = t.order(func(slot int) bool { return t.touched[slot] }), true
		}
		for len(h.order) > 0 {
			if len(d.Keys) > 0 && 8*len(d.Keys)+4*len(d.Values) >= bytes {
				return d, nil
			}
			slot := int(h.order[0])
			h.order = h.order[1:]
			switch place := u.place(slot); {
			case place < 0:
				d.Add(t.key(slot), t.stored(slot))
			case u.touched[place]:
				d.Add(t.key(slot), u.stored(t, place))
			}
		}
		h.table, h.ordered = h.table+1, false
	}
	return d, nil
}
