package ps

import "slices"

// outgoing is a partition on its way to a new owner while this one still serves it.
//
// Invariant: a row whose present version the receiver lacks is in queue or dirty.
//
// The hand-over:
//  1. BeginMove queues all touched rows. It refuses while a cut is named or outstanding.
//  2. MoveRows sends them in pieces. The shard keeps serving; touch marks what changes meanwhile, and MoveAgain queues that.
//  3. FinalMove gives the rest in one message: dirty rows, marks, pending and staged work, settled and fenced incarnations.
//     Until then CancelMove undoes everything; afterwards only the receiver (Incoming.Finish) may serve.
//
// Undo stays behind: only the keys of rows changed since the committed cut travel (layer.keysOnly), so a roll-back before the next cut
// starts from the backup.
//
// Rejected: moves during a cut. The last message would have to include the cut and its layer, or the old owner remain as the source of the
// delivery; every failure in between multiplies the cases (decision 3).
type outgoing struct {
	queue []place // rows not sent yet
	// dirty rows changed after they were sent, or appeared during the move; some may still be in the queue, too.
	dirty [][]bool // by table and slot
	// lazy: the last message was sent first, without rows. The shard no longer changes, and each row is sent once.
	lazy bool
	sent [][]bool // by table and slot
}

// place is the location of a row.
type place struct {
	table TableID
	slot  uint32
}

func (o *outgoing) touch(t TableID, slot int) { mark(&o.dirty[t], slot) }

func mark(flags *[]bool, slot int) {
	if slot >= len(*flags) {
		*flags = append(*flags, make([]bool, max(slot+1, 2*len(*flags))-len(*flags))...)
	}
	(*flags)[slot] = true
}

func (o *outgoing) isDirty(t TableID, slot int) bool {
	return slot < len(o.dirty[t]) && o.dirty[t][slot]
}

// BeginMove starts to hand the partition to a new owner. ErrBusy: a cut or another move is in progress.
func (s *Shard) BeginMove() error {
	if s.moving != nil || s.named != 0 || len(s.layers) > 1 {
		return ErrBusy
	}
	s.moving = &outgoing{dirty: make([][]bool, len(s.rows.tables))}
	s.rows.each(func(t *tableRows, slot int) {
		s.moving.queue = append(s.moving.queue, place{t.id, uint32(slot)})
	})
	return nil
}

// MoveRows returns the next rows to send, at least one and about maxBytes. More is false if none are left or the move was cancelled; in the
// latter case FinalMove returns an error.
func (s *Shard) MoveRows(maxBytes int) (rows Block, more bool) {
	o := s.moving
	if o == nil {
		return rows, false
	}
	for bytes := 0; len(o.queue) > 0 && bytes < maxBytes; {
		t, slot := &s.rows.tables[o.queue[0].table], int(o.queue[0].slot)
		o.queue = o.queue[1:]
		if o.lazy {
			if sent := o.sent[t.id]; slot < len(sent) && sent[slot] {
				continue
			}
			mark(&o.sent[t.id], slot)
		}
		if o.isDirty(t.id, slot) {
			o.dirty[t.id][slot] = false
		}
		cells := t.stored(slot)
		rows.Add(t.key(slot), cells)
		bytes += deliveryBytes(len(cells))
	}
	return rows, len(o.queue) > 0
}

// MoveAgain queues the rows that changed since they were sent, and reports whether there are any.
func (s *Shard) MoveAgain() bool {
	o := s.moving
	if o == nil {
		return false
	}
	for t := range o.dirty {
		for slot, changed := range o.dirty[t] {
			if changed {
				o.queue = append(o.queue, place{TableID(t), uint32(slot)})
			}
		}
	}
	return len(o.queue) > 0
}

// Quiet reports whether no work here is unfolded, staged or uncommitted.
func (s *Shard) Quiet() bool {
	return len(s.staged)+len(s.arriving) == 0 && !slices.ContainsFunc(s.ahead, func(p *pending) bool { return p != nil && p.committed > 0 })
}

// Moving reports whether a move away from here is in progress.
func (s *Shard) Moving() bool { return s.moving != nil }

// CancelMove resumes normal service: the new owner is gone.
func (s *Shard) CancelMove() { s.moving = nil }

// Final is the last message of a move: rows changed since they were sent, and everything that is not rows.
// After it the old owner only forwards.
type Final struct {
	Rows    Block
	Folded  Clock
	Marks   []Clock
	Pending []PendingClock
	Staged  []*Contribution
	Settled []Settled
	Base    Clock // the committed cut that undo would return to; undo itself stays behind
	Full    bool
	Dirty   []Key // rows changed since Base
}

// PendingClock is the unfolded work of a clock.
type PendingClock struct {
	Clock     Clock
	Committed int
	Sums      Sums
	more      []Sums // if it came in parts: all but the first
}

// Settled is an incarnation's last committed contribution, and whether it is fenced.
type Settled struct {
	Incarnation Incarnation
	Sequence    uint64
	Fenced      bool
}

// FinalMove ends the move on this side. The shard must not be used afterwards.
func (s *Shard) FinalMove() (*Final, error) {
	if s.moving == nil {
		return nil, invalid("partition %d is not moving", s.id)
	}
	for _, at := range s.moving.queue {
		s.moving.touch(at.table, int(at.slot))
	}
	return s.final()
}

// FirstMove is FinalMove before any row was sent, and contains none: the receiver serves reads of rows that have arrived. MoveRows returns
// all rows then, MoveFirst's rows first. The shard must not change until CancelMove.
func (s *Shard) FirstMove() (*Final, error) {
	if s.moving == nil {
		return nil, invalid("partition %d is not moving", s.id)
	}
	s.moving.lazy, s.moving.sent = true, make([][]bool, len(s.rows.tables))
	return s.final()
}

// MoveFirst sends rows before the others. Rows that were never touched are not sent, and wait for the end of the move.
func (s *Shard) MoveFirst(keys []Key) {
	if s.moving == nil {
		return
	}
	var first []place
	for _, k := range keys {
		t := &s.rows.tables[k.Table]
		if slot := t.find(k.Row); slot >= 0 && t.touched[slot] {
			first = append(first, place{k.Table, uint32(slot)})
		}
	}
	s.moving.queue = append(first, s.moving.queue...)
}

// Arrived reports whether a row of a partition whose last message came first has arrived.
func (s *Shard) Arrived(k Key) bool {
	t := &s.rows.tables[k.Table]
	slot := t.find(k.Row)
	return slot >= 0 && t.touched[slot]
}

// final returns the last message of a move, with the dirty rows.
func (s *Shard) final() (*Final, error) {
	f := &Final{
		Folded: s.folded,
		Marks:  s.marks,
		Base:   s.layers[0].cut,
		Full:   s.layers[0].full,
	}
	for i := range s.rows.tables {
		t := &s.rows.tables[i]
		for _, slot := range t.order(func(slot int) bool { return s.moving.isDirty(t.id, slot) }) {
			f.Rows.Add(t.key(int(slot)), t.stored(int(slot)))
		}
		changed := slices.Clone(s.layers[0].tables[i].slots)
		t.sort(changed)
		for _, slot := range changed {
			f.Dirty = append(f.Dirty, t.key(int(slot)))
		}
	}
	for i, p := range s.ahead {
		if p == nil {
			continue
		}
		sums, err := p.export(&s.rows)
		if err != nil {
			return nil, err
		}
		f.Pending = append(f.Pending, PendingClock{Clock: s.folded + 1 + Clock(i), Committed: p.committed, Sums: sums})
	}
	for _, inc := range sorted(s.staged) {
		c := s.staged[inc]
		c.Done, c.done = nil, nil // the message uses its memory
		f.Staged = append(f.Staged, c)
	}
	seen := map[Incarnation]bool{}
	for inc := range s.settled {
		seen[inc] = true
	}
	for inc := range s.fenced {
		seen[inc] = true
	}
	for _, inc := range sorted(seen) {
		f.Settled = append(f.Settled, Settled{Incarnation: inc, Sequence: s.settled[inc], Fenced: s.fenced[inc]})
	}
	return f, nil
}

// Incoming is a partition that is being received.
type Incoming struct{ shard *Shard }

// NewIncoming starts to receive a partition.
func NewIncoming(schema *Schema, id Partition) *Incoming {
	return &Incoming{shard: NewShard(schema, id)}
}

// Rows adds rows; later ones replace earlier ones.
func (in *Incoming) Rows(b *Block) error {
	if err := b.Check(in.shard.schema, in.shard.id); err != nil {
		return err
	}
	in.shard.rows.take(b)
	return nil
}

// Finish processes the last message and returns the shard, which serves from now on. After an error nothing received may be used.
func (in *Incoming) Finish(f *Final) (*Shard, error) {
	s := in.shard
	if err := f.check(s.schema, s.id); err != nil {
		return nil, err
	}
	if err := in.Rows(&f.Rows); err != nil {
		return nil, err
	}
	s.resetTo(f.Base)
	s.folded = f.Folded
	copy(s.marks, f.Marks)
	for i := range f.Pending {
		p := s.at(f.Pending[i].Clock)
		p.committed = f.Pending[i].Committed
		for _, u := range append([]Sums{f.Pending[i].Sums}, f.Pending[i].more...) {
			if err := p.add(&s.rows, &u, false); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range f.Staged {
		s.staged[c.Incarnation] = c
	}
	for _, t := range f.Settled {
		if t.Sequence > 0 {
			s.settled[t.Incarnation] = t.Sequence
		}
		if t.Fenced {
			s.fenced[t.Incarnation] = true
		}
	}
	s.layers[0].forget()
	s.layers[0].full = f.Full
	for _, k := range f.Dirty {
		t := &s.rows.tables[k.Table]
		s.layers[0].tables[k.Table].remember(t, t.slot(k.Row))
	}
	return s, nil
}

// check reports whether a last message fits the schema and the partition, apart from rows.
func (f *Final) check(schema *Schema, id Partition) error {
	if len(f.Marks) != schema.Splits {
		return invalid("marks of %d splits, not %d", len(f.Marks), schema.Splits)
	}
	if f.Base < 0 || f.Base > f.Folded || f.Folded > LastClock {
		return invalid("cut %d of a partition that has folded clock %d", f.Base, f.Folded)
	}
	for split, mark := range f.Marks {
		if mark < f.Folded || mark > schema.lastAhead(f.Folded) {
			return invalid("split %d at clock %d of a partition that has folded clock %d", split, mark, f.Folded)
		}
	}
	if err := f.checkPending(schema, id); err != nil {
		return err
	}
	if most := schema.Splits + len(f.Settled); len(f.Staged) > most {
		return invalid("%d staged contributions of %d splits", len(f.Staged), schema.Splits)
	}
	for _, c := range f.Staged {
		if err := c.check(schema, id); err != nil {
			return err
		}
	}
	_, err := schema.CheckKeys(id, f.Dirty)
	return err
}

// checkPending reports whether every clock that some splits have committed and others have not is present, once, with the number of splits
// according to the marks.
func (f *Final) checkPending(schema *Schema, id Partition) error {
	ahead := int(slices.Max(f.Marks) - f.Folded)
	if len(f.Pending) != ahead {
		return invalid("%d clocks pending where marks are up to %d ahead", len(f.Pending), ahead)
	}
	ending := make([]int, ahead+1) // number of splits whose mark is this far ahead
	for _, mark := range f.Marks {
		ending[mark-f.Folded]++
	}
	committed := schema.Splits
	for i := range f.Pending {
		p := &f.Pending[i]
		committed -= ending[i]
		if p.Clock != f.Folded+1+Clock(i) || p.Committed != committed || committed == schema.Splits {
			return invalid("%d splits pending for clock %d after clock %d", p.Committed, p.Clock, f.Folded)
		}
		for _, u := range append([]Sums{p.Sums}, p.more...) {
			if err := u.Check(schema, id); err != nil {
				return err
			}
		}
	}
	return nil
}
