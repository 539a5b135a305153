package ps

// layer is the undo since a cut: each row changed since then, as it was at the cut. nil stands for a row
// at its initial value. The set of its keys is also what the next cut's delivery must carry.
type layer struct {
	cut    Clock
	before map[Key][]float32
	// keysOnly layers came with a move: they know which rows changed and not what they were, since undo stays
	// behind. Returning to their cut takes the backup.
	keysOnly bool
	// full asks for all rows in the next delivery: the backup does not hold this cut.
	full bool
	// bytes is what the rows of before take in a delivery.
	bytes int
}

func newLayer(cut Clock) layer { return layer{cut: cut, before: map[Key][]float32{}} }

// remember keeps a row of cols columns as it is before a change; nil stands for its initial value.
func (l *layer) remember(k Key, row []float32, cols int) {
	if _, ok := l.before[k]; ok {
		return
	}
	l.bytes += deliveryBytes(cols)
	var old []float32
	if row != nil && !l.keysOnly {
		old = append(old, row...)
	}
	l.before[k] = old
}

func (s *Shard) top() *layer { return &s.layers[len(s.layers)-1] }

// NameCut asks for a cut at a clock. ErrPassed: the clock is folded already and later work with it.
// ErrBusy: another cut or a move is under way. Naming the same cut again is harmless.
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

// UnnameCut takes a cut's name back, wherever it stands. What had passed it goes on as before.
func (s *Shard) UnnameCut(c Clock) {
	if s.named == c {
		s.named = 0
	}
	if len(s.layers) > 1 && s.layers[1].cut == c {
		for k, row := range s.layers[1].before {
			s.layers[0].remember(k, row, s.schema.Cols(k))
		}
		s.layers = s.layers[:1]
	}
}

func (s *Shard) pass() {
	s.layers = append(s.layers, newLayer(s.named))
	s.named = 0
}

// Delivery is a cut of one partition on its way to the backup: the rows that changed since Base, as they were
// at Cut. A Full one carries every touched row and needs no base.
type Delivery struct {
	Cut, Base Clock
	Full      bool
	Rows      Block
}

// Passed says whether the cut has been passed here, so that Deliver can give it.
func (s *Shard) Passed(c Clock) bool { return s.top().cut == c }

// CutBytes estimates the size of the next delivery: what an end-of-life flush would have to send.
func (s *Shard) CutBytes() int { return s.layers[0].bytes }

// deliveryBytes is about what a row takes on its way to another server: its key and its values.
func deliveryBytes(cols int) int { return 8 + 4*cols }

// Deliver gives the outstanding cut, which must have been passed. full asks for all rows because the backup
// says that it lacks the base.
func (s *Shard) Deliver(c Clock, full bool) (Delivery, error) {
	if len(s.layers) != 2 || s.layers[1].cut != c {
		return Delivery{}, invalid("cut %d of partition %d is not outstanding", c, s.id)
	}
	d := Delivery{Cut: c, Base: s.layers[0].cut, Full: full || s.layers[0].full}
	if d.Full {
		for _, k := range sortedKeys(s.rows) {
			s.deliverRow(&d, k)
		}
		return d, nil
	}
	for _, k := range sortedKeys(s.layers[0].before) {
		s.deliverRow(&d, k)
	}
	return d, nil
}

func (s *Shard) deliverRow(d *Delivery, k Key) {
	row := s.rows[k]
	if old, changed := s.layers[1].before[k]; changed {
		row = old
	}
	if row != nil {
		d.Rows.Add(k, row)
	}
}

// CommitCut drops the undo from before the cut. Committing it again is harmless.
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

// Rollback returns to a cut: rows by the undo layers, and everything beyond the cut goes. ErrNoUndo leaves the
// shard as it was.
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
		for k, row := range s.layers[i].before {
			if row == nil {
				delete(s.rows, k)
			} else {
				s.rows[k] = row
			}
		}
	}
	// What the backup holds may be older than the cut that was returned to, if the news of the commit did
	// not arrive; Deliver is told by the backup then.
	s.resetTo(c)
	return nil
}

// Base is the newest cut known to be committed, and whether this shard can return to it by itself.
func (s *Shard) Base() (cut Clock, undo bool) { return s.layers[0].cut, !s.layers[0].keysOnly }

// NeedFull makes the next delivery carry all rows: the partition has a new backup.
func (s *Shard) NeedFull() { s.layers[0].full = true }

// CanRollback says whether Rollback to a cut would succeed.
func (s *Shard) CanRollback(c Clock) bool {
	for _, l := range s.layers {
		if l.cut == c && !l.keysOnly {
			return true
		}
	}
	return false
}
