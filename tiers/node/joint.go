package node

import (
	"slices"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/internal/vector/fast"
	"github.com/tierml/tierml/ps"
)

// shared holds the rows of splits that work together on one copy (apps.Joining). The group contributes the difference between the copy at
// the end and the rows as read: one pass over the rows for all splits.
type shared struct {
	tables [][][]float32 // by table and row: the row in values; nil = not requested
	slots  [][]float32   // by slot: the same
	values []float32
	keys   []ps.Key // by slot: whose entries in tables are used
}

// newShared supports schemas whose rows can be shared: plain parameters, tables small enough for a list of their rows, and not
// deterministic. Otherwise it returns nil.
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

// roundSplits are the splits of one round. With staleness two rounds are in flight, and their splits may differ, so each round has its own
// value.
type roundSplits struct {
	splits []apps.Split
	joint  apps.Joint // nil: the splits work separately
}

// team joins splits, if possible. Preparing a joint takes long, so the last one is kept for later rounds of the same splits.
func (w *workspace) team(splits []apps.Split) roundSplits {
	if w.joining == nil || w.shares == nil {
		return roundSplits{splits: splits}
	}
	if w.last.joint == nil || !slices.Equal(w.last.splits, splits) {
		splits = slices.Clone(splits)
		w.last = roundSplits{splits, w.joining.Join(splits, w.threads, w.schema.Staleness)}
	}
	return w.last
}

// rowNeeds lists the rows that a split, or a joint of several, needs.
type rowNeeds interface {
	Needs(c ps.Clock, keys []ps.Key) []ps.Key
	EvalNeeds(keys []ps.Key) []ps.Key
}

// members returns the shards that determine the team's rows.
func (t roundSplits) members() []rowNeeds {
	if t.joint != nil {
		return []rowNeeds{t.joint}
	}
	all := make([]rowNeeds, len(t.splits))
	for i, split := range t.splits {
		all[i] = split
	}
	return all
}

// needs appends the rows that a clock needs, possibly repeated.
func needs(n rowNeeds, c ps.Clock, evaluate bool, keys []ps.Key) []ps.Key {
	keys = n.Needs(c, keys)
	if evaluate {
		keys = n.EvalNeeds(keys)
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

// spread copies the given rows.
func (s *shared) spread(given []float32) {
	for _, row := range s.slots {
		n := copy(row, given)
		clear(row[n:cap(row)])
		given = given[n:]
	}
}

// Table implements apps.SharedRows.
func (s *shared) Table(t ps.TableID) [][]float32 { return s.tables[t] }

// updates returns the changes, by the joint's weights, one entry per partition. If keep is set they have memory of their own, otherwise
// that of the given rows.
func (s *shared) updates(w *workspace, joint apps.Joint, keep bool) []ps.Sums {
	sums := make([]ps.Sums, w.schema.Partitions)
	keys, changes := make([]ps.Key, 0, len(s.keys)), w.given[:0]
	if keep {
		changes = make([]float32, 0, len(w.given))
	}
	weights := make([][]float32, len(s.tables))
	for t := range weights {
		weights[t] = joint.Weights(ps.TableID(t))
	}
	for p := range sums {
		firstKey, first := len(keys), len(changes)
		for slot := w.rows.begins[p]; slot < w.rows.begins[p+1]; slot++ {
			k, row, given := s.keys[slot], s.slots[slot], w.given[w.offsets[slot]:w.offsets[slot+1]]
			fast.Axpy(-1, given, row) // the row is no longer needed
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
