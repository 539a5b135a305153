package node

import (
	"fmt"
	"slices"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// workspace is the memory in which a worker computes one clock of a group of splits. It is used again for every clock.
//
// The group's rows are read once into given. Every split then works on its own copy of them: it sees its own
// updates of the clock and nobody else's, so that the result does not depend on which splits share a worker. Its
// differences are summed up by row.
type workspace struct {
	schema *ps.Schema

	slots   slotIndex
	keys    []ps.Key // by slot, in the order in which they were first asked for
	offsets []int    // by slot: where the row begins in the slices below; one more at the end
	given   []float32
	asked   [][]int // by split of the group: its slots, each once
	asker   []int   // by slot: the last split of the group that asked for it, from 1 on

	ruled   bool // some table has a rule
	copies  copies
	fixed   []int64 // sums of differences, deterministic mode
	float   []float32
	changed []bool // by slot: some split changed the row
	buffer  []ps.Key
}

// copies are one split's rows. A worker on several goroutines has one each.
type copies struct {
	space      *workspace
	values     []float32
	mine       []bool // by slot: the split asked for it
	difference []float32
	gradients  []float32 // as values, of tables with a rule; nil when there are none
}

func newWorkspace(schema *ps.Schema) *workspace {
	w := &workspace{schema: schema, slots: newSlotIndex(schema)}
	w.copies.space = w
	w.ruled = slices.ContainsFunc(schema.Tables, func(t ps.Table) bool { return t.Rule.Name != ps.Add })
	return w
}

// begin collects the rows that a clock of the splits needs: keys, to be read into given.
func (w *workspace) begin(splits []apps.Split, c ps.Clock, evaluate bool) {
	w.slots.clear(w.keys)
	w.keys, w.offsets = w.keys[:0], append(w.offsets[:0], 0)
	w.asked = resized(w.asked, len(splits))
	w.asker = w.asker[:0]
	for i, split := range splits {
		w.buffer = split.Needs(c, w.buffer[:0])
		if evaluate {
			w.buffer = split.EvalNeeds(w.buffer) // may name rows that Needs named
		}
		w.ask(i, w.buffer)
	}
	size := w.offsets[len(w.keys)]
	w.given = resized(w.given, size)
	w.changed = resized(w.changed, len(w.keys))
	clear(w.changed)
	if w.schema.Deterministic {
		w.fixed = resized(w.fixed, size)
		clear(w.fixed)
	} else {
		w.float = resized(w.float, size)
		clear(w.float)
	}
}

func (w *workspace) ask(i int, keys []ps.Key) {
	w.asked[i] = w.asked[i][:0]
	for _, k := range keys {
		if slot := w.slot(k); w.asker[slot] != i+1 {
			w.asker[slot] = i + 1
			w.asked[i] = append(w.asked[i], slot)
		}
	}
}

func (w *workspace) slot(k ps.Key) int {
	if slot, ok := w.slots.get(k); ok {
		return slot
	}
	slot := len(w.keys)
	w.slots.put(k, slot)
	w.keys = append(w.keys, k)
	w.asker = append(w.asker, 0)
	w.offsets = append(w.offsets, w.offsets[slot]+w.schema.Cols(k))
	return slot
}

// compute runs one clock of the i-th split of the group and adds up what it changed.
func (w *workspace) compute(i int, split apps.Split, c ps.Clock, evaluate bool) (apps.Stats, error) {
	w.copies.take(w.asked[i])
	defer w.copies.leave(w.asked[i])
	stats, err := split.Run(c, &w.copies, evaluate)
	if err != nil {
		return stats, err
	}
	return stats, w.sum(&w.copies, w.asked[i])
}

// sum adds a split's differences to the group's. A row counts as changed if any split changed it, even if the sum
// is zero: whether a row is touched must not depend on how splits are grouped.
func (w *workspace) sum(c *copies, slots []int) error {
	for _, slot := range slots {
		from, to := w.offsets[slot], w.offsets[slot+1]
		if k := w.keys[slot]; w.schema.Kind(k) == ps.Int32 {
			if err := w.sumCounts(c, slot); err != nil {
				return fmt.Errorf("row %d of table %s: %w", k.Row, w.schema.Tables[k.Table].Name, err)
			}
			continue
		}
		update := c.update(slot)
		if !slices.ContainsFunc(update, func(d float32) bool { return d != 0 }) {
			continue
		}
		w.changed[slot] = true
		if !w.schema.Deterministic {
			for j, d := range update {
				w.float[from+j] += d
			}
			continue
		}
		if err := ps.AddDifference(w.fixed[from:to], update); err != nil {
			k := w.keys[slot]
			return fmt.Errorf("row %d of table %s: %w", k.Row, w.schema.Tables[k.Table].Name, err)
		}
	}
	return nil
}

// update is what a split sends of a row: its gradient where the table has a rule, or else what it changed.
func (c *copies) update(slot int) []float32 {
	w := c.space
	from, to := w.offsets[slot], w.offsets[slot+1]
	if w.hasRule(slot) {
		return c.gradients[from:to]
	}
	c.difference = resized(c.difference, to-from)
	ps.Difference(c.difference, w.given[from:to], c.values[from:to])
	return c.difference
}

func (w *workspace) hasRule(slot int) bool {
	return w.ruled && w.schema.Tables[w.keys[slot].Table].Rule.Name != ps.Add
}

// sumCounts is sum for a row of an Int32 table.
func (w *workspace) sumCounts(c *copies, slot int) error {
	from, to := w.offsets[slot], w.offsets[slot+1]
	given, changed := ps.Ints(w.given[from:to]), ps.Ints(c.values[from:to])
	if slices.Equal(given, changed) {
		return nil
	}
	w.changed[slot] = true
	if w.schema.Deterministic {
		return ps.AddCounts(w.fixed[from:to], given, changed)
	}
	c.difference = resized(c.difference, to-from)
	difference := ps.Ints(c.difference)
	if err := ps.DifferenceInts(difference, given, changed); err != nil {
		return err
	}
	return ps.AddInts(ps.Ints(w.float[from:to]), difference)
}

// updates gives the group's sums, one entry per partition. They share no memory with the workspace.
func (w *workspace) updates() []ps.Sums {
	sums := make([]ps.Sums, w.schema.Partitions)
	for slot, k := range w.keys {
		if !w.changed[slot] {
			continue
		}
		from, to := w.offsets[slot], w.offsets[slot+1]
		u := &sums[w.schema.PartitionOf(k)]
		if w.schema.Deterministic {
			w.schema.AppendSum(u, k, w.fixed[from:to], nil)
		} else {
			w.schema.AppendSum(u, k, nil, w.float[from:to])
		}
	}
	return sums
}

// take makes fresh copies of the rows that a split asked for.
func (c *copies) take(slots []int) {
	w := c.space
	c.values = resized(c.values, len(w.given))
	c.mine = resized(c.mine, len(w.keys))
	if w.ruled {
		c.gradients = resized(c.gradients, len(w.given))
	}
	for _, slot := range slots {
		from, to := w.offsets[slot], w.offsets[slot+1]
		copy(c.values[from:to], w.given[from:to])
		c.mine[slot] = true
		if w.hasRule(slot) {
			clear(c.gradients[from:to])
		}
	}
}

func (c *copies) leave(slots []int) {
	for _, slot := range slots {
		c.mine[slot] = false
	}
}

// Row implements apps.Rows.
func (c *copies) Row(k ps.Key) []float32 {
	from, to := c.find(k)
	return c.values[from:to:to]
}

// Gradient is what apps.Gradient asks for.
func (c *copies) Gradient(k ps.Key) []float32 {
	if c.space.schema.Tables[k.Table].Rule.Name == ps.Add {
		panic(fmt.Sprintf("node: a gradient for table %d, which has no rule", k.Table))
	}
	from, to := c.find(k)
	return c.gradients[from:to:to]
}

func (c *copies) find(k ps.Key) (from, to int) {
	w := c.space
	slot, ok := w.slots.get(k)
	if !ok || !c.mine[slot] {
		panic(fmt.Sprintf("node: row %d of table %d was not asked for", k.Row, k.Table))
	}
	return w.offsets[slot], w.offsets[slot+1]
}

// splitStats names the split that a measurement belongs to.
func splitStats(id ps.Split, s apps.Stats) tiers.SplitStats {
	return tiers.SplitStats{Split: id, Examples: s.Examples, Loss: s.Loss,
		TestCount: s.TestCount, TestLoss: s.TestLoss, Work: s.Work}
}

// resized gives a slice of n elements, the same memory if it is large enough. Elements that were there before keep
// their values.
func resized[T any](s []T, n int) []T {
	return slices.Grow(s[:0], n)[:n]
}

// mostDense bounds the rows of a table that get an array element each, 4 bytes; larger tables use a map.
const mostDense = 1 << 22

// slotIndex finds a row's slot. Applications look rows up once per example and more: an array is several times
// faster than a map.
type slotIndex struct {
	dense  [][]int32 // by table: slot + 1 by row; nil = the table is too large
	sparse map[ps.Key]int
}

func newSlotIndex(schema *ps.Schema) slotIndex {
	x := slotIndex{dense: make([][]int32, len(schema.Tables)), sparse: map[ps.Key]int{}}
	for i, t := range schema.Tables {
		if t.Rows <= mostDense {
			x.dense[i] = make([]int32, t.Rows)
		}
	}
	return x
}

func (x *slotIndex) get(k ps.Key) (int, bool) {
	if dense := x.dense[k.Table]; dense != nil {
		slot := int(dense[k.Row]) - 1
		return slot, slot >= 0
	}
	slot, ok := x.sparse[k]
	return slot, ok
}

func (x *slotIndex) put(k ps.Key, slot int) {
	if dense := x.dense[k.Table]; dense != nil {
		dense[k.Row] = int32(slot + 1)
		return
	}
	x.sparse[k] = slot
}

func (x *slotIndex) clear(keys []ps.Key) {
	for _, k := range keys {
		if dense := x.dense[k.Table]; dense != nil {
			dense[k.Row] = 0
		}
	}
	clear(x.sparse)
}
