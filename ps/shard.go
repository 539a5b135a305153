package ps

import "fmt"

// Shard is one partition at its owner.
//
// Invariants:
//   - rows hold the folded state: all updates of every clock up to folded, and none beyond it. Rows that
//     are not touched stand at their initial value.
//   - marks[s] is the last clock that split s committed here; a clock is complete when every mark has
//     reached it, and is folded at that moment. Work beyond folded waits by clock: ahead[i] is that of clock
//     folded+1+i.
//   - layers[0].cut is the newest cut known to be committed; layers[1], if there, is the one cut that has
//     been passed and is on its way to the backup. A layer keeps every row that changed since its cut as it was
//     then.
//
// The life of a contribution:
//  1. Stage holds it unseen, until its worker knows that every owner holds its part.
//  2. Commit adds it to the sums of its clock (pending) and advances the marks of its splits.
//  3. When every mark has reached the clock after folded, the sums of that clock go into the rows (fold).
//  4. If that clock was named as a cut, a layer opens before the next fold (pass).
//
// Repeating any step has no effect: settled has each incarnation's last sequence number, and a split whose mark has
// reached a clock has committed it.
//
// Rejected: two sums per row while a cut is outstanding, up to the cut and beyond it. Each update would be sorted on
// arrival, and reads, moves and roll-backs would have to know both sums (decision 1).
type Shard struct {
	schema *Schema
	bound  Clock // the schema's
	id     Partition

	rows   rows
	folded Clock
	marks  []Clock
	ahead  []*pending // nil = no work of that clock yet
	unused []*pending // memory of folded clocks, for reuse
	spare  []int64    // one row
	floats []float32  // likewise

	staged   map[Incarnation]*Contribution
	arriving map[Incarnation]*Contribution // without their last pieces
	settled  map[Incarnation]uint64        // last committed sequence number
	fenced   map[Incarnation]bool

	named  Clock // cut that is named and not passed yet; 0 = none
	layers []layer

	moving *outgoing
}

// Contribution is what one worker sends to one partition for one clock of a set of splits. All of it counts or none: it is staged
// invisibly, and counts once the worker knows that every owner holds its part, and commits.
type Contribution struct {
	Incarnation Incarnation
	Sequence    uint64 // increases by one with each contribution of the incarnation
	Clock       Clock
	Splits      []Split // ascending; at least one
	Updates     Sums
	Given       bool // the memory of dense rows belongs to the shard, which may change it; otherwise it is valid until Commit
	// Done, unless nil, is called when the shard has folded the contribution and no longer uses its memory. It is never called for a
	// contribution that does not count here, or that was still staged when its partition began to move.
	Done func()

	more []Sums   // if it came in pieces: all but the first
	done []func() // Done of those
}

// NewShard returns a partition in its initial state, at cut 0.
func NewShard(schema *Schema, id Partition) *Shard {
	return newShardAt(schema, id, 0)
}

func newShardAt(schema *Schema, id Partition, cut Clock) *Shard {
	return shardOf(schema, id, cut, newRows(schema, id))
}

// shardOf returns a partition at a cut with these rows, which it keeps.
func shardOf(schema *Schema, id Partition, cut Clock, r rows) *Shard {
	s := &Shard{schema: schema, bound: schema.Bound(), id: id, rows: r}
	widest := 0
	for i := range schema.Tables {
		widest = max(widest, schema.Tables[i].Cols)
	}
	s.spare, s.floats = make([]int64, widest), make([]float32, widest)
	s.resetTo(cut)
	return s
}

// resetTo resets everything except the rows to the state right after a cut.
func (s *Shard) resetTo(cut Clock) {
	s.folded = cut
	s.marks = make([]Clock, s.schema.Splits)
	for i := range s.marks {
		s.marks[i] = cut
	}
	s.ahead, s.unused = nil, nil
	s.staged, s.arriving = map[Incarnation]*Contribution{}, map[Incarnation]*Contribution{}
	s.settled = map[Incarnation]uint64{}
	s.fenced = map[Incarnation]bool{}
	s.named = 0
	s.layers = []layer{newLayer(s.schema, cut)}
	s.moving = nil
}

// Folded returns the last complete clock.
func (s *Shard) Folded() Clock { return s.folded }

// Mark returns the last clock that a split has committed here.
func (s *Shard) Mark(split Split) Clock { return s.marks[split] }

// CanRead reports whether work of clock c may read: everything through clock c-s-1 must be folded, where s is Schema.Bound.
func (s *Shard) CanRead(c Clock) bool { return s.folded >= c-s.bound-1 }

// Stamp is the work included in rows when a worker reads them.
type Stamp struct {
	Folded Clock  // all work through this clock
	Own    uint64 // and, outside deterministic mode, the worker's own contributions through this sequence number
}

// Stamp returns the stamp of an incarnation's reads now.
func (s *Shard) Stamp(reader Incarnation) Stamp {
	return Stamp{Folded: s.folded, Own: s.settled[reader]}
}

// Read copies a row into dst. In deterministic mode it is the folded state; otherwise it also includes all committed later work, the
// freshest value there is.
func (s *Shard) Read(k Key, dst []float32) {
	t := &s.rows.tables[k.Table]
	slot := t.find(k.Row)
	switch {
	case slot < 0:
		t.untouched(k.Row, dst, s.folded)
		return
	case t.table.Sparse:
		expandSparse(dst, t.stored(slot))
	case t.table.Rule.Name != Add:
		t.table.Seen(dst, t.stored(slot), s.folded)
		return
	default:
		copy(dst, t.cells.row(slot))
	}
	if !s.schema.Deterministic {
		_ = s.addAhead(t, slot, dst) // it fits: see checkFresh
	}
}

// View returns a row as Read or, if stored, Stored would copy it, in the shard's own memory: it must not be changed, and is valid until the
// shard changes. Its capacity does not exceed that memory. Nil: there is no such memory.
func (s *Shard) View(k Key, stored bool) []float32 {
	t := &s.rows.tables[k.Table]
	slot := t.find(k.Row)
	if slot < 0 || t.table.Sparse {
		return nil
	}
	row := t.cells.view(slot)
	switch {
	case stored:
	case t.table.Rule.Name == Mean: // as stored, without work of later clocks
		row = row[:t.table.Cols:t.table.Cols]
	case t.table.Rule.Name != Add || !s.schema.Deterministic && s.isAhead(t, slot):
		return nil
	}
	return row
}

// isAhead reports whether incomplete clocks have work on a row.
func (s *Shard) isAhead(t *tableRows, slot int) bool {
	for _, p := range s.ahead {
		if p != nil && p.tables[t.id].place(slot) >= 0 {
			return true
		}
	}
	return false
}

// Stored copies a whole row of the folded state into dst, with its rule's state: Table.Width cells.
func (s *Shard) Stored(k Key, dst []float32) {
	t := &s.rows.tables[k.Table]
	switch slot := t.find(k.Row); {
	case slot < 0:
		t.initial(k.Row, dst)
	case t.table.Sparse:
		expandSparse(dst, t.stored(slot))
	default:
		copy(dst, t.stored(slot))
	}
}

// addAhead adds a row's work of clocks that are not complete.
func (s *Shard) addAhead(t *tableRows, slot int, row []float32) error {
	for _, p := range s.ahead {
		if p == nil {
			continue
		}
		u := &p.tables[t.id]
		if place := u.place(slot); place >= 0 {
			if err := u.applyFloat(t.table, place, row); err != nil {
				return s.schema.rowError(t.key(slot), err)
			}
		}
	}
	return nil
}

// Stage holds a contribution until its commit; the shard keeps its memory until its clock is folded. Staging the same one again is
// harmless. It returns true if it had been committed before.
func (s *Shard) Stage(c *Contribution) (committed bool, err error) {
	if committed, err := s.admit(c); committed || err != nil {
		return committed, err
	}
	delete(s.arriving, c.Incarnation)
	s.staged[c.Incarnation] = c
	return false, nil
}

// admit reports whether a contribution, or a piece of one, had been committed before; an error if it cannot be accepted.
func (s *Shard) admit(c *Contribution) (committed bool, err error) {
	if s.fenced[c.Incarnation] {
		return false, ErrFenced
	}
	if c.Sequence <= s.settled[c.Incarnation] {
		return true, nil
	}
	if err := c.check(s.schema, s.id); err != nil {
		return false, err
	}
	if s.holds(c) {
		return true, nil
	}
	if err := s.checkMarks(c); err != nil {
		return false, err
	}
	return false, s.checkRoom(c)
}

// maxAhead is how many clocks a split's work may be ahead of the folded state, beyond the permitted staleness. It bounds what a partition
// keeps of incomplete clocks.
const maxAhead Clock = 4096

// lastAhead returns the last clock whose work may wait here.
func (s *Schema) lastAhead(folded Clock) Clock {
	if s.Staleness == Unbounded {
		return folded + maxAhead
	}
	return folded + s.Staleness + maxAhead
}

// checkRoom bounds the uncommitted state. Honest workers never reach the bounds: each split is in the work of one incarnation, except for
// fenced ones that wait for Settle.
func (s *Shard) checkRoom(c *Contribution) error {
	if last := s.schema.lastAhead(s.folded); c.Clock > last {
		return fmt.Errorf("%w: clock %d; work of clocks up to %d is taken", ErrEarly, c.Clock, last)
	}
	most := s.schema.Splits + len(s.fenced)
	if s.staged[c.Incarnation] == nil && s.arriving[c.Incarnation] == nil && len(s.staged)+len(s.arriving) >= most {
		return fmt.Errorf("%w: %d contributions wait for their commit already", ErrEarly, most)
	}
	return nil
}

// check reports whether a contribution fits the schema and a partition.
func (c *Contribution) check(s *Schema, p Partition) error {
	if len(c.Splits) == 0 {
		return invalid("a contribution of no split")
	}
	for i, split := range c.Splits {
		if int(split) >= s.Splits {
			return invalid("split %d of %d", split, s.Splits)
		}
		if i > 0 && split <= c.Splits[i-1] {
			return invalid("split %d after split %d: they must ascend", split, c.Splits[i-1])
		}
	}
	return c.each(func(u *Sums) error { return u.Check(s, p) })
}

// holds reports whether all splits of a contribution have completed its clock here. This is so after a return to a cut that includes the
// contribution, which does not record sequence numbers.
func (s *Shard) holds(c *Contribution) bool {
	for _, split := range c.Splits {
		if s.marks[split] < c.Clock {
			return false
		}
	}
	return true
}

// checkMarks ensures that a split's clocks are in order and unique.
func (s *Shard) checkMarks(c *Contribution) error {
	for _, split := range c.Splits {
		if s.marks[split] != c.Clock-1 {
			return invalid("split %d commits clock %d after clock %d", split, c.Clock, s.marks[split])
		}
	}
	return nil
}

// Commit makes a staged contribution count, once. It reports whether a clock became complete.
func (s *Shard) Commit(inc Incarnation, seq uint64) (folded bool, err error) {
	if s.fenced[inc] {
		return false, ErrFenced
	}
	return s.commit(inc, seq)
}

func (s *Shard) commit(inc Incarnation, seq uint64) (folded bool, err error) {
	if seq <= s.settled[inc] {
		return false, nil
	}
	c := s.staged[inc]
	if c == nil || c.Sequence != seq {
		return false, ErrNotStaged
	}
	if err := s.checkMarks(c); err != nil {
		return false, err
	}
	if s.completes(c) {
		if err := s.foldWith(c); err != nil {
			return false, err
		}
		_, err := s.fold() // later clocks may be complete already
		return true, err
	}
	p := s.at(c.Clock)
	err = c.each(func(u *Sums) error {
		if err := p.add(&s.rows, u, c.Given); err != nil {
			return err
		}
		return s.checkFresh(u.Keys)
	})
	if err != nil {
		return false, err
	}
	s.counted(c)
	p.committed += len(c.Splits)
	p.done = append(append(p.done, c.done...), c.Done)
	if !p.keeps {
		p.free()
	}
	return s.fold()
}

// touch records that a row changes.
func (s *Shard) touch(t *tableRows, slot int) {
	s.top().tables[t.id].remember(t, slot)
	t.touched[slot] = true
	if s.moving != nil {
		s.moving.touch(t.id, slot)
	}
}

// counted records that a staged contribution counts.
func (s *Shard) counted(c *Contribution) {
	delete(s.staged, c.Incarnation)
	delete(s.arriving, c.Incarnation)
	s.settled[c.Incarnation] = c.Sequence
	for _, split := range c.Splits {
		s.marks[split] = c.Clock
	}
}

// next begins the next clock.
func (s *Shard) next() {
	s.folded++
	if s.named == s.folded {
		s.pass()
	}
}

// at returns the work of a clock that is not folded.
func (s *Shard) at(c Clock) *pending {
	i := int(c - s.folded - 1)
	for i >= len(s.ahead) {
		s.ahead = append(s.ahead, nil)
	}
	if s.ahead[i] == nil {
		if n := len(s.unused); n > 0 {
			s.ahead[i], s.unused = s.unused[n-1], s.unused[:n-1]
		} else {
			s.ahead[i] = newPending(s.schema)
		}
	}
	return s.ahead[i]
}

// checkFresh keeps every count that a read may return, including pending work, within its type.
func (s *Shard) checkFresh(keys []Key) error {
	if s.schema.Deterministic {
		return nil // reads return folded rows, which are checked at the fold
	}
	for _, k := range keys {
		if s.schema.Kind(k) != Int32 {
			continue
		}
		t := &s.rows.tables[k.Table]
		slot, row := t.find(k.Row), make([]float32, t.table.Cols)
		if t.table.Sparse {
			expandSparse(row, t.stored(slot))
		} else {
			copy(row, t.stored(slot))
		}
		if err := s.addAhead(t, slot, row); err != nil {
			return err
		}
	}
	return nil
}

// Standing is a partition's knowledge of an incarnation.
type Standing struct {
	Committed uint64 // last committed sequence number
	Staged    uint64 // sequence number of the staged contribution; 0 = none
}

// Fence accepts nothing more from an incarnation. Its staged contribution waits for Settle.
func (s *Shard) Fence(inc Incarnation) Standing {
	s.fenced[inc] = true
	delete(s.arriving, inc)
	st := Standing{Committed: s.settled[inc]}
	if c := s.staged[inc]; c != nil {
		st.Staged = c.Sequence
	}
	return st
}

// Settle resolves a fenced incarnation's staged contribution: it counts if any partition had committed it, since then every partition has
// it staged; otherwise it is dropped.
func (s *Shard) Settle(inc Incarnation, seq uint64, commit bool) (folded bool, err error) {
	if !commit {
		delete(s.staged, inc)
		return false, nil
	}
	return s.commit(inc, seq)
}
