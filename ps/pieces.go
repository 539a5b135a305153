package ps

// A contribution to a large partition, and the last message of its move, do not fit one frame. They travel in pieces: whole rows, in key
// order, so that the total received is bounded by what the partition can hold.

// sumBytes is the approximate size of a row's sum in transit: its key and its numbers.
func (s *Schema) sumBytes(numbers int) int {
	if s.Deterministic {
		return 8 + 8*numbers
	}
	return 8 + 4*numbers
}

// CutSums splits off the first rows of sums that fit the schema: at least one, and as many as fit into this many bytes.
func (s *Schema) CutSums(u *Sums, bytes int) (head, rest Sums) {
	n, fixed, float := 0, 0, 0
	for _, k := range u.Keys {
		numbers := s.Tables[k.Table].Cols
		switch sparse := s.Tables[k.Table].Sparse; {
		case sparse && s.Deterministic:
			numbers = sparseWords(u.Fixed[fixed:], numbers)
		case sparse:
			numbers = sparseCells(u.Float[float:], numbers)
		}
		if bytes -= s.sumBytes(numbers); bytes < 0 && n > 0 {
			break
		}
		n++
		if s.Deterministic {
			fixed += numbers
		} else {
			float += numbers
		}
	}
	head = Sums{Keys: u.Keys[:n:n], Fixed: u.Fixed[:fixed:fixed], Float: u.Float[:float:float]}
	return head, Sums{Keys: u.Keys[n:], Fixed: u.Fixed[fixed:], Float: u.Float[float:]}
}

// bytes is the approximate size of sums in transit.
func (u *Sums) bytes() int { return 8*len(u.Keys) + 8*len(u.Fixed) + 4*len(u.Float) }

// Bytes is the approximate size of sums in transit.
func (u *Sums) Bytes() int { return u.bytes() }

// cut splits off the first rows of a block that fits the schema, like CutSums.
func (b *Block) cut(s *Schema, bytes int) (head, rest Block) {
	n, values := 0, 0
	for _, k := range b.Keys {
		cells := s.CellsOf(k, b.Values[values:])
		if bytes -= deliveryBytes(cells); bytes < 0 && n > 0 {
			break
		}
		n, values = n+1, values+cells
	}
	return Block{b.Keys[:n:n], b.Values[:values:values]}, Block{b.Keys[n:], b.Values[values:]}
}

// Before reports whether a key comes before another.
func (k Key) Before(other Key) bool {
	return k.Table < other.Table || k.Table == other.Table && k.Row < other.Row
}

// follow reports whether keys ascend, starting above before.
func follow(before, keys []Key) bool {
	if len(before) > 0 {
		before = before[len(before)-1:]
	}
	for i, k := range keys {
		if i > 0 {
			before = keys[i-1 : i]
		}
		if len(before) > 0 && !before[0].Before(k) {
			return false
		}
	}
	return true
}

// each calls f for every piece of a contribution's updates until it returns an error.
func (c *Contribution) each(f func(u *Sums) error) error {
	if err := f(&c.Updates); err != nil {
		return err
	}
	for i := range c.more {
		if err := f(&c.more[i]); err != nil {
			return err
		}
	}
	return nil
}

// last returns the last available piece.
func (c *Contribution) last() *Sums {
	if n := len(c.more); n > 0 {
		return &c.more[n-1]
	}
	return &c.Updates
}

// StagePiece is Stage for a contribution that arrives in pieces: each has everything except the other pieces' rows, and more is false for
// the last, with which the contribution is staged. Pieces arrive in order and rows ascend throughout; a repeated piece is harmless, except
// for the first, which starts over. ErrNotStaged: earlier ones are missing, and the contribution must start over.
func (s *Shard) StagePiece(c *Contribution, piece int, more bool) (committed bool, err error) {
	if piece == 0 && !more {
		return s.Stage(c)
	}
	held := s.staged[c.Incarnation]
	if committed, err := s.admit(c); committed || err != nil {
		return committed, err
	}
	if held != nil && held.Sequence == c.Sequence {
		return false, nil
	}
	a := s.arriving[c.Incarnation]
	if a != nil && (a.Sequence != c.Sequence || a.Clock != c.Clock) {
		a = nil
	}
	switch {
	case len(c.Updates.Keys) == 0 || !follow(nil, c.Updates.Keys):
		return false, invalid("a piece of a contribution without rows, or with rows that do not ascend")
	case piece == 0: // also when it starts over
		s.arriving[c.Incarnation] = c
		return false, nil
	case a != nil && piece <= len(a.more):
		return false, nil // sent again
	case a == nil || piece != len(a.more)+1:
		return false, ErrNotStaged
	case !follow(a.last().Keys, c.Updates.Keys):
		return false, invalid("pieces of a contribution whose rows do not ascend")
	}
	a.more, a.done = append(a.more, c.Updates), append(a.done, c.Done)
	if !more {
		delete(s.arriving, c.Incarnation)
		s.staged[c.Incarnation] = a
	}
	return false, nil
}

// Cut splits a last message into parts of about this many bytes, which Join reassembles. It may keep the memory.
func (f *Final) Cut(s *Schema, bytes int) []*Final {
	c := finalCutter{whole: f, schema: s, bytes: bytes}
	first := c.next()
	first.Marks, first.Settled = f.Marks, f.Settled
	c.left -= 8*len(f.Marks) + 24*len(f.Settled)
	for rest := f.Rows; len(rest.Keys) > 0; {
		part := c.part(deliveryBytes(s.CellsOf(rest.Keys[0], rest.Values)))
		part.Rows, rest = rest.cut(s, c.left)
		c.left -= 8*len(part.Rows.Keys) + 4*len(part.Rows.Values)
	}
	for rest := f.Dirty; len(rest) > 0; {
		part := c.part(8)
		n := min(max(c.left/8, 1), len(rest))
		part.Dirty, rest = rest[:n:n], rest[n:]
		c.left -= 8 * n
	}
	for i := range f.Pending {
		p := &f.Pending[i]
		c.sums(&p.Sums, p.more, 32, func(part *Final, u Sums) {
			part.Pending = append(part.Pending, PendingClock{Clock: p.Clock, Committed: p.Committed, Sums: u})
		})
	}
	for _, staged := range f.Staged {
		c.sums(&staged.Updates, staged.more, 48+4*len(staged.Splits), func(part *Final, u Sums) {
			piece := *staged
			piece.Updates, piece.more = u, nil
			part.Staged = append(part.Staged, &piece)
		})
	}
	return c.parts
}

// finalCutter creates the parts of a last message.
type finalCutter struct {
	whole  *Final
	schema *Schema
	bytes  int
	left   int // of the last part
	parts  []*Final
}

func (c *finalCutter) next() *Final {
	c.parts = append(c.parts, &Final{Folded: c.whole.Folded, Base: c.whole.Base, Full: c.whole.Full})
	c.left = c.bytes
	return c.parts[len(c.parts)-1]
}

// part returns the last part if it has room, or else a new one.
func (c *finalCutter) part(bytes int) *Final {
	if c.left < bytes && c.left < c.bytes {
		return c.next()
	}
	return c.parts[len(c.parts)-1]
}

// sums puts the sums of one clock, or of one contribution, into parts; head is the size of a piece without its rows.
func (c *finalCutter) sums(first *Sums, more []Sums, head int, put func(part *Final, u Sums)) {
	if len(first.Keys) == 0 {
		put(c.part(head), Sums{})
		c.left -= head
	}
	for i := -1; i < len(more); i++ {
		rest := *first
		if i >= 0 {
			rest = more[i]
		}
		for len(rest.Keys) > 0 {
			one, _ := c.schema.CutSums(&rest, 0)
			part := c.part(head + one.bytes())
			var u Sums
			u, rest = c.schema.CutSums(&rest, c.left-head)
			put(part, u)
			c.left -= head + u.bytes()
		}
	}
}

// Begin returns the message to which Join adds the other parts; f is the first.
func (f *Final) Begin() (*Final, error) {
	whole := &Final{Folded: f.Folded, Base: f.Base, Full: f.Full, Marks: f.Marks, Settled: f.Settled}
	return whole, whole.join(f)
}

// Join adds the next part of a last message. No part is empty, and rows ascend from part to part, so that the result is bounded.
func (f *Final) Join(part *Final) error {
	if len(part.Rows.Keys)+len(part.Dirty)+len(part.Pending)+len(part.Staged) == 0 || len(part.Marks)+len(part.Settled) > 0 {
		return invalid("a part of a last message that has nothing of its own")
	}
	return f.join(part)
}

func (f *Final) join(part *Final) error {
	if !follow(f.Rows.Keys, part.Rows.Keys) || !follow(f.Dirty, part.Dirty) {
		return invalid("parts of a last message whose rows do not ascend")
	}
	f.Rows.Keys, f.Rows.Values = append(f.Rows.Keys, part.Rows.Keys...), append(f.Rows.Values, part.Rows.Values...)
	f.Dirty = append(f.Dirty, part.Dirty...)
	for i := range part.Pending {
		if err := f.joinPending(&part.Pending[i]); err != nil {
			return err
		}
	}
	for _, c := range part.Staged {
		if err := f.joinStaged(c); err != nil {
			return err
		}
	}
	return nil
}

func (f *Final) joinPending(p *PendingClock) error {
	if n := len(f.Pending); n > 0 && f.Pending[n-1].Clock == p.Clock {
		last := &f.Pending[n-1]
		before := last.Sums.Keys
		if m := len(last.more); m > 0 {
			before = last.more[m-1].Keys
		}
		if p.Committed != last.Committed || len(p.Sums.Keys) == 0 || !follow(before, p.Sums.Keys) {
			return invalid("parts of a pending clock that do not go together")
		}
		last.more = append(last.more, p.Sums)
		return nil
	}
	if len(f.Pending) >= len(f.Marks)+int(maxAhead) {
		return invalid("%d pending clocks", len(f.Pending))
	}
	f.Pending = append(f.Pending, *p)
	return nil
}

func (f *Final) joinStaged(c *Contribution) error {
	if n := len(f.Staged); n > 0 && f.Staged[n-1].Incarnation == c.Incarnation {
		last := f.Staged[n-1]
		if c.Sequence != last.Sequence || c.Clock != last.Clock || len(c.Updates.Keys) == 0 || !follow(last.last().Keys, c.Updates.Keys) {
			return invalid("parts of a staged contribution that do not go together")
		}
		last.more = append(last.more, c.Updates)
		return nil
	}
	if len(f.Staged) >= len(f.Marks)+len(f.Settled) {
		return invalid("%d staged contributions", len(f.Staged))
	}
	f.Staged = append(f.Staged, c)
	return nil
}
