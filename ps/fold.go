package ps

import (
	"errors"

	"github.com/tierml/tierml/internal/vector"
)

// completes reports whether a contribution is the only one missing for the next clock and can be folded directly (foldWith). Sparse tables,
// integers outside deterministic mode, and rows that occur twice but may be rounded or stepped only once, use the pending sums.
func (s *Shard) completes(c *Contribution) bool {
	if c.Clock != s.folded+1 {
		return false
	}
	committed := 0
	if len(s.ahead) > 0 && s.ahead[0] != nil {
		committed = s.ahead[0].committed
	}
	if committed+len(c.Splits) != s.schema.Splits {
		return false
	}
	var last *Key
	return c.each(func(u *Sums) error {
		for i := range u.Keys {
			k := &u.Keys[i]
			t := &s.schema.Tables[k.Table]
			// A row's sum is rounded once, and its rule runs once: rows that occur twice are added up first.
			once := last == nil || last.Before(*k) || !s.schema.Deterministic && t.Rule.Name == Add
			if t.Sparse || t.Kind != Float32 && !s.schema.Deterministic || !once {
				return errNotAtOnce
			}
			last = k
		}
		return nil
	}) == nil
}

var errNotAtOnce = errors.New("not to be folded at once")

// foldWith folds the next clock with the contribution that completes it, without adding it to the pending sums first.
//
// Invariant: in deterministic mode the rows end with the same bits as through the sums. Each row is rounded once and its rule runs once,
// because completes admits each row once.
//
// For each row of the contribution, the row's pending sum is added and removed from pending. The remaining pending rows are those that the
// contribution does not have; foldNext folds them. The contribution counts only after its own rows are done: an error before that is fatal
// to the job.
//
// Rejected: adding every contribution to the sums. That copied each row that no other contribution had changed, and took another pass over
// memory for the rest.
func (s *Shard) foldWith(c *Contribution) error {
	var waiting *pending
	if len(s.ahead) > 0 {
		waiting = s.ahead[0]
	}
	err := c.each(func(u *Sums) error {
		fixed, float := u.Fixed, u.Float
		for _, k := range u.Keys {
			t := &s.rows.tables[k.Table]
			slot := t.slot(k.Row)
			s.touch(t, slot)
			n, row := t.table.Cols, t.row(slot)
			var err error
			if s.schema.Deterministic {
				err = s.foldFixed(t, slot, row, fixed[:n], waiting)
				fixed = fixed[n:]
			} else {
				s.foldFloat(t, slot, row, float[:n], waiting)
				float = float[n:]
			}
			if err != nil {
				return s.schema.rowError(k, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.counted(c)
	freeAll(append(c.done, c.Done))
	if waiting == nil {
		if len(s.ahead) > 0 {
			s.ahead = append(s.ahead[:0], s.ahead[1:]...)
		}
		s.next()
		return nil
	}
	return s.foldNext()
}

// foldFixed folds a row's pending sum and its last update.
func (s *Shard) foldFixed(t *tableRows, slot int, row []float32, last []int64, waiting *pending) error {
	if waiting != nil {
		if u := &waiting.tables[t.id]; u.place(slot) >= 0 {
			sum := u.fixedRow(u.place(slot))
			if err := addSums(sum, last); err != nil {
				return err
			}
			u.remove(slot)
			last = sum
		}
	}
	switch {
	case t.table.Rule.Name != Add:
		t.table.Step(row, s.toFloats(last), s.folded+1)
	case t.table.Kind == Int32:
		return FoldCounts(Ints(row), last)
	default:
		FoldSum(row, last)
	}
	return nil
}

// foldFloat is foldFixed outside deterministic mode.
func (s *Shard) foldFloat(t *tableRows, slot int, row, last []float32, waiting *pending) {
	var sum []float32
	if waiting != nil {
		if u := &waiting.tables[t.id]; u.place(slot) >= 0 {
			sum = u.floatRow(u.place(slot))
			u.remove(slot)
		}
	}
	switch {
	case t.table.Rule.Name == Add && sum != nil:
		vector.Axpy(1, sum, row)
		vector.Axpy(1, last, row)
	case t.table.Rule.Name == Add:
		vector.Axpy(1, last, row)
	case sum != nil:
		vector.Axpy(1, last, sum)
		t.table.Step(row, sum, s.folded+1)
	default:
		t.table.Step(row, last, s.folded+1)
	}
}

// fold applies complete clocks in order; passing a named cut opens its layer between two clocks. After an error, which is fatal for the
// job, the shard must not be used.
func (s *Shard) fold() (folded bool, err error) {
	for len(s.ahead) > 0 {
		p := s.ahead[0]
		if p == nil || p.committed < s.schema.Splits {
			break
		}
		if err := s.foldNext(); err != nil {
			return folded, err
		}
		folded = true
	}
	return folded, nil
}

// foldNext folds the pending sums of the next clock.
func (s *Shard) foldNext() error {
	p := s.ahead[0]
	for i := range p.tables {
		if err := s.foldTable(&s.rows.tables[i], &p.tables[i]); err != nil {
			return err
		}
	}
	s.ahead = append(s.ahead[:0], s.ahead[1:]...)
	p.reset()
	s.unused = append(s.unused, p)
	s.next()
	return nil
}

func (s *Shard) foldTable(t *tableRows, u *sums) error {
	for place, slot := range u.slots {
		slot := int(slot)
		if u.place(slot) < 0 {
			continue // removed
		}
		s.touch(t, slot)
		row := t.row(slot)
		if t.table.Rule.Name != Add {
			t.table.Step(row, s.gradient(u, place), s.folded+1)
			continue
		}
		var err error
		if s.schema.Deterministic {
			err = u.applyFixed(t.table, place, row, s.spare)
		} else {
			err = u.applyFloat(t.table, place, row)
		}
		if err != nil {
			return s.schema.rowError(t.key(slot), err)
		}
		if t.table.Sparse {
			t.sparse[slot] = AppendSparse(nil, row)
		}
	}
	return nil
}

// gradient returns the sum at a place, for a table with a rule.
func (s *Shard) gradient(u *sums, place int) []float32 {
	if !s.schema.Deterministic {
		return u.floatRow(place)
	}
	return s.toFloats(u.fixedRow(place))
}

// toFloats returns a sum as floats, in memory that the next call reuses.
func (s *Shard) toFloats(sum []int64) []float32 {
	gradient := s.floats[:len(sum)]
	for i, x := range sum {
		gradient[i] = FromFixed(x)
	}
	return gradient
}
