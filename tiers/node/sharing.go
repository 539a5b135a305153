package node

import (
	"slices"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/internal/vector/fast"
	"github.com/tierml/tierml/ps"
)

// shared are the rows of a group of splits that work on one copy, one after the other (apps.Sharing). What the group
// sends is the difference between the copy at the end and what was given: one pass over the rows for all splits.
type shared struct {
	tables [][][]float32 // by table and row: the row in values; nil = it was not asked for
	slots  [][]float32   // by slot: the same
	values []float32
	keys   []ps.Key // by slot: whose places in tables are taken
	fresh  bool     // the rows are still to be copied
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

// share says whether all of the splits do.
func share(splits []apps.Split) bool {
	return !slices.ContainsFunc(splits, func(s apps.Split) bool { _, shares := s.(apps.Sharing); return !shares })
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
	s.values, s.slots, s.fresh = resized(s.values, size), resized(s.slots, len(s.keys)), true
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
	s.fresh = false
}

// Table implements apps.SharedRows.
func (s *shared) Table(t ps.TableID) [][]float32 { return s.tables[t] }

// updates gives what changed, one entry per partition, in memory of their own.
func (s *shared) updates(w *workspace) []ps.Sums {
	sums := make([]ps.Sums, w.schema.Partitions)
	keys, changes := make([]ps.Key, 0, len(s.keys)), make([]float32, 0, len(w.given))
	for p := range sums {
		firstKey, first := len(keys), len(changes)
		for slot := w.rows.begins[p]; slot < w.rows.begins[p+1]; slot++ {
			from := len(changes)
			changes = append(changes, s.slots[slot]...)
			change := changes[from:]
			fast.Axpy(-1, w.given[w.offsets[slot]:w.offsets[slot+1]], change)
			if !slices.ContainsFunc(change, func(d float32) bool { return d != 0 }) {
				changes = changes[:from]
				continue
			}
			keys = append(keys, s.keys[slot])
		}
		sums[p] = ps.Sums{Keys: slices.Clip(keys[firstKey:]), Float: slices.Clip(changes[first:])}
	}
	return sums
}
