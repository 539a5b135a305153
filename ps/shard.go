package ps

// Shard is one partition as its owner sees it.
//
// Invariants:
//   - rows hold the folded state: all updates of every clock up to folded, and none beyond it. Rows that
//     were never touched are absent and stand at their initial value.
//   - marks[s] is the last clock that split s committed here; a clock is complete when every mark has
//     reached it, and is folded at that moment. Work beyond folded waits in pending, by clock.
//   - layers[0].cut is the newest cut known to be committed; layers[1], if there, is the one cut that has
//     been passed and is on its way to the backup. before[k] of a layer is row k as it was at that cut, for
//     every row changed since.
type Shard struct {
	schema *Schema
	id     Partition

	rows    map[Key][]float32
	folded  Clock
	marks   []Clock
	pending map[Clock]*pending

	staged  map[Incarnation]*Contribution
	settled map[Incarnation]uint64 // last committed sequence number
	fenced  map[Incarnation]bool

	named  Clock // cut that is named and not passed yet; 0 = none
	layers []layer

	moving *outgoing
}

// Contribution is what one worker sends to one partition for one clock of a set of splits: all of it counts
// or none. It is staged unseen, and counts when the worker has heard that every owner holds it and commits.
type Contribution struct {
	Incarnation Incarnation
	Sequence    uint64 // grows by one with each contribution of the incarnation
	Clock       Clock
	Splits      []Split // ascending
	Updates     Sums
}

// NewShard gives a partition in its initial state, at cut 0.
func NewShard(schema *Schema, id Partition) *Shard {
	return newShardAt(schema, id, 0)
}

func newShardAt(schema *Schema, id Partition, cut Clock) *Shard {
	s := &Shard{
		schema: schema,
		id:     id,
		rows:   map[Key][]float32{},
	}
	s.resetTo(cut)
	return s
}

// resetTo makes everything but the rows as it is right after a cut.
func (s *Shard) resetTo(cut Clock) {
	s.folded = cut
	s.marks = make([]Clock, s.schema.Splits)
	for i := range s.marks {
		s.marks[i] = cut
	}
	s.pending = map[Clock]*pending{}
	s.staged = map[Incarnation]*Contribution{}
	s.settled = map[Incarnation]uint64{}
	s.fenced = map[Incarnation]bool{}
	s.named = 0
	s.layers = []layer{newLayer(cut)}
	s.moving = nil
}

// Folded is the last complete clock.
func (s *Shard) Folded() Clock { return s.folded }

// Mark is the last clock that a split has committed here.
func (s *Shard) Mark(split Split) Clock { return s.marks[split] }

// CanRead says whether work of clock c may read: everything through clock c-s-1 must be folded.
func (s *Shard) CanRead(c Clock) bool { return s.folded >= c-s.schema.Staleness-1 }

// Read copies a row into dst. In deterministic mode it is the folded state; otherwise it also holds whatever
// later work has been committed, the freshest value there is.
func (s *Shard) Read(k Key, dst []float32) {
	if row, ok := s.rows[k]; ok {
		copy(dst, row)
	} else {
		InitRow(s.schema.Seed, s.schema.Tables[k.Table], k.Table, k.Row, dst)
	}
	if s.schema.Deterministic {
		return
	}
	for c := s.folded + 1; len(s.pending) > 0 && c <= s.folded+s.schema.Staleness+1; c++ {
		if p := s.pending[c]; p != nil {
			_ = p.apply(s.schema, k, dst) // it fits: see checkFresh
		}
	}
}

// Stage holds a contribution until its commit; the shard keeps what it is given until then. Staging the same
// one again is harmless. It reports true when it had been committed before.
func (s *Shard) Stage(c *Contribution) (committed bool, err error) {
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
	s.staged[c.Incarnation] = c
	return false, nil
}

// check says whether a contribution fits the schema and a partition.
func (c *Contribution) check(s *Schema, p Partition) error {
	for i, split := range c.Splits {
		if int(split) >= s.Splits {
			return invalid("split %d of %d", split, s.Splits)
		}
		if i > 0 && split <= c.Splits[i-1] {
			return invalid("split %d after split %d: they must ascend", split, c.Splits[i-1])
		}
	}
	return c.Updates.Check(s, p)
}

// holds says whether all splits of a contribution have its clock behind them here. So it is when the partition
// came back from a cut that holds the contribution, which says nothing of sequence numbers.
func (s *Shard) holds(c *Contribution) bool {
	for _, split := range c.Splits {
		if s.marks[split] < c.Clock {
			return false
		}
	}
	return len(c.Splits) > 0
}

// checkMarks keeps a split's clocks in order and each of them single.
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
	p := s.pending[c.Clock]
	if p == nil {
		p = &pending{}
		s.pending[c.Clock] = p
	}
	if err := p.add(s.schema, &c.Updates); err != nil {
		return false, err
	}
	if err := s.checkFresh(c.Updates.Keys); err != nil {
		return false, err
	}
	delete(s.staged, inc)
	s.settled[inc] = seq
	for _, split := range c.Splits {
		s.marks[split] = c.Clock
	}
	p.committed += len(c.Splits)
	return s.fold()
}

// checkFresh keeps every count that a read may give, with what is pending, within its type.
func (s *Shard) checkFresh(keys []Key) error {
	if s.schema.Deterministic {
		return nil // reads give folded rows, which are checked at the fold
	}
	for _, k := range keys {
		if s.schema.Kind(k) != Int32 {
			continue
		}
		row := make([]float32, s.schema.Cols(k))
		copy(row, s.rows[k])
		for _, c := range sorted(s.pending) {
			if err := s.pending[c].apply(s.schema, k, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// fold applies complete clocks in order; passing a named cut opens its layer between two clocks. After an error, which
// is fatal for the job, the shard is not to be used.
func (s *Shard) fold() (folded bool, err error) {
	for {
		p := s.pending[s.folded+1]
		if p == nil || p.committed < s.schema.Splits {
			return folded, nil
		}
		p.eachKey(func(k Key) {
			row := s.rows[k]
			s.top().remember(k, row, s.schema.Cols(k))
			if row == nil {
				row = make([]float32, s.schema.Cols(k))
				InitRow(s.schema.Seed, s.schema.Tables[k.Table], k.Table, k.Row, row)
				s.rows[k] = row
			}
			if fault := p.apply(s.schema, k, row); fault != nil {
				err = fault
			}
			if s.moving != nil {
				s.moving.touch(k)
			}
		})
		if err != nil {
			return folded, err
		}
		delete(s.pending, s.folded+1)
		s.folded++
		folded = true
		if s.named == s.folded {
			s.pass()
		}
	}
}

// Standing is what a partition knows of an incarnation.
type Standing struct {
	Committed uint64 // last committed sequence number
	Staged    uint64 // sequence number of the staged contribution; 0 = none
}

// Fence gives up an incarnation: nothing more of it is accepted, and what it has staged waits for Settle.
func (s *Shard) Fence(inc Incarnation) Standing {
	s.fenced[inc] = true
	st := Standing{Committed: s.settled[inc]}
	if c := s.staged[inc]; c != nil {
		st.Staged = c.Sequence
	}
	return st
}

// Settle ends what a fenced incarnation has staged: it counts if any partition had committed it, for then
// every partition has it staged; otherwise it is dropped.
func (s *Shard) Settle(inc Incarnation, seq uint64, commit bool) (folded bool, err error) {
	if !commit {
		delete(s.staged, inc)
		return false, nil
	}
	return s.commit(inc, seq)
}
