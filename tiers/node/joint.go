package node

import (
	"slices"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/internal/vector/fast"
	"github.com/tierml/tierml/ps"
)

// shared are the rows of splits that work together on one copy (apps.Joining). What the group sends is the difference
// between the copy at the end and what was given: one pass over the rows for all splits.
type shared struct {
	tables [][][]float32 // by table and row: the row in values; nil = it was not asked for
	slots  [][]float32   // by slot: the same
	values []float32
	keys   []ps.Key // by slot: whose places in tables are taken
}

// newShared is for schemas that rows can be shared of: of plain parameters, in tables that are not too large for a list of
// their rows, and not deterministic. Nil: it is none of them.
func newShared(schema *ps.Schema) *shared {
	s := &shared{tables: make([][][]float32, len(schema.Tables))}
	for i, t := range schema.Tables {
		if schema.Deterministic || t.Sparse || t.Kind != ps.Float32 || t.Rule.Name != ps.Add || t.Rows > mostDense {
			return nil
		}
		s.tables[i] = make([][]float32, t.Rows)
	}
	return s
}

// join makes splits one piece of work, the same one as long as they are the same. Nil: they are each on their own.
func (w *workspace) join(splits []apps.Split) apps.Joint {
	if w.joining == nil || w.shares == nil {
		return nil
	}
	if w.joint == nil || !slices.Equal(w.joined, splits) {
		w.joint, w.joined = w.joining.Join(splits, w.threads, w.schema.Staleness), slices.Clone(splits)
	}
	return w.joint
}

// needs appends the rows that a clock of splits needs; some may be named more than once.
func (w *workspace) needs(splits []apps.Split, c ps.Clock, evaluate bool, keys []ps.Key) []ps.Key {
	if j := w.join(splits); j != nil {
		keys = j.Needs(c, keys)
		if evaluate {
			keys = j.EvalNeeds(keys)
		}
		return keys
	}
	for _, split := range splits {
		keys = split.Needs(c, keys)
		if evaluate {
			keys = split.EvalNeeds(keys)
		}
	}
	return keys
}

// begin makes room for the rows of a clock.
func (s *shared) begin(w *workspace) {
	for _, k := range s.keys {
		s.tables[k.Table][k.Row] = nil
	}
	s.keys = append(s.keys[:0], w.keys...)
	size := 0
	for _, k := range s.keys {
		size += apps.Room(w.schema.Cols(k))
	}
	s.values, s.slots = resized(s.values, size), resized(s.slots, len(s.keys))
	at := 0
	for slot, k := range s.keys {
		cols := w.schema.Cols(k)
		next := at + apps.Room(cols)
		s.slots[slot] = s.values[at : at+cols : next]
		s.tables[k.Table][k.Row] = s.slots[slot]
		at = next
	}
}

// spread copies what was given.
func (s *shared) spread(given []float32) {
	for _, row := range s.slots {
		n := copy(row, given)
		clear(row[n:cap(row)])
		given = given[n:]
	}
}

// Table implements apps.SharedRows.
func (s *shared) Table(t ps.TableID) [][]float32 { return s.tables[t] }

// updates gives what changed, by the application's weights, one entry per partition. If keep is set they have memory of
// their own, or else that of what was given.
func (s *shared) updates(w *workspace, keep bool) []ps.Sums {
	sums := make([]ps.Sums, w.schema.Partitions)
	keys, changes := make([]ps.Key, 0, len(s.keys)), w.given[:0]
	if keep {
		changes = make([]float32, 0, len(w.given))
	}
	weights := make([][]float32, len(s.tables))
	for t := range weights {
		weights[t] = w.joint.Weights(ps.TableID(t))
	}
	for p := range sums {
		firstKey, first := len(keys), len(changes)
		for slot := w.rows.begins[p]; slot < w.rows.begins[p+1]; slot++ {
			k, row, given := s.keys[slot], s.slots[slot], w.given[w.offsets[slot]:w.offsets[slot+1]]
			fast.Axpy(-1, given, row) // the row is done with
			if by := weights[k.Table]; by != nil && by[k.Row] != 1 {
				for i := range row {
					row[i] *= by[k.Row]
				}
			}
			if slices.ContainsFunc(row, func(d float32) bool { return d != 0 }) {
				keys, changes = append(keys, k), append(changes, row...)
			}
		}
		sums[p] = ps.Sums{Keys: slices.Clip(keys[firstKey:]), Float: slices.Clip(changes[first:])}
	}
	return sums
}
