package node

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/internal/parallel"
	"github.com/tierml/tierml/internal/vector"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// workspace is the memory in which a worker computes one clock of a team of splits. It is reused for every clock: it holds nothing of the
// previous round, which may be on its way to the servers, or of the next one, which is read ahead.
//
// The team's rows are read once into given. Every split then works on its own copy: it sees only its own updates of the clock, so that the
// result does not depend on which splits share a worker. Its differences are summed up by row. Rows of tables with a rule do not change, so
// they need no copy, and if a split is alone its gradients are the sums. Outside of deterministic mode applications may allow one copy for
// all (joint.go).
type workspace struct {
	schema *ps.Schema

	rows    rowIndex
	keys    []ps.Key // by slot: the rows' keys
	offsets []int    // by slot: where the row begins in the slices below; one more at the end
	given   []float32
	asked   [][]ps.Key // by member of the team

	outside apps.Outside // nil: all memory is the workspace's
	joining apps.Joining // nil: the application does not support sharing
	shares  *shared      // nil: the schema does not
	last    roundSplits  // joined last; only used by team

	ruled   bool // some table has a rule
	plain   bool // some table has none
	alone   bool // one split of the team reads rows, and its gradients are the sums
	threads int
	copies  []copies   // by thread
	summing sync.Mutex // held by the thread that adds to the sums below
	fixed   []int64    // sums of differences, deterministic mode
	float   []float32
	changed []bool   // by slot: some split changed the row, and its sum is set
	sent    []ps.Key // scratch: of rows that changed

	own struct{ given, float []float32 } // memory for given and float, unless the application has it
}

// mostCopies bounds the cells of all threads' copies: 1 GB. With more rows, fewer threads compute.
const mostCopies = 256 << 20

// copies holds one split's rows while a thread works on them.
type copies struct {
	space      *workspace
	slots      []int     // that the split reads, each once
	values     []float32 // of tables without a rule
	mine       []bool    // by slot: the split reads it
	difference []float32
	gradients  []float32 // like values, for tables with a rule
	own        []float32 // gradients, unless they are the sums
	stepped    []bool    // by slot: the gradient was requested, and is set
}

// newWorkspace returns a workspace for an application and that many threads.
func newWorkspace(schema *ps.Schema, app apps.App, threads int) *workspace {
	w := &workspace{schema: schema, rows: newRowIndex(schema), threads: max(threads, 1)}
	w.outside, _ = app.(apps.Outside)
	if w.joining, _ = app.(apps.Joining); w.joining != nil {
		w.shares = newShared(schema)
	}
	w.copies = make([]copies, w.threads)
	for i := range w.copies {
		w.copies[i].space = w
	}
	plain := func(t ps.Table) bool { return t.Rule.Name == ps.Add }
	w.plain = slices.ContainsFunc(schema.Tables, plain)
	w.ruled = slices.ContainsFunc(schema.Tables, func(t ps.Table) bool { return !plain(t) })
	return w
}

// begin collects the rows that a clock of the team needs: keys, to be read into given. Calls until the next begin are for the same team and
// clock.
func (w *workspace) begin(t roundSplits, c ps.Clock, evaluate bool) {
	w.rows.clear()
	members := t.members()
	w.asked = resized(w.asked, len(members))
	reading := 0
	for i, member := range members {
		w.asked[i] = needs(member, c, evaluate, w.asked[i][:0]) // may list rows twice
		w.rows.ask(w.asked[i])
		reading += min(len(w.asked[i]), 1)
	}
	w.alone = reading == 1 && w.ruled && !w.schema.Deterministic
	w.keys = w.rows.number()
	w.offsets = append(w.offsets[:0], 0)
	size := 0
	for _, k := range w.keys {
		size += w.schema.Cols(k)
		w.offsets = append(w.offsets, size)
	}
	var given, float []float32
	if w.outside != nil {
		given, float = w.outside.Space()
	}
	w.given = lentOr(&w.own.given, given, size)
	if t.joint != nil {
		w.shares.begin(w)
		return
	}
	w.changed = resized(w.changed, len(w.keys))
	clear(w.changed)
	if w.schema.Deterministic {
		w.fixed = resized(w.fixed, size)
	} else {
		if !w.alone {
			float = nil
		}
		w.float = lentOr(&w.own.float, float, size)
	}
}

// lentOr returns memory that is lent if it has the right size, and otherwise own memory.
func lentOr(own *[]float32, lent []float32, size int) []float32 {
	if size > 0 && len(lent) == size {
		return lent
	}
	*own = resized(*own, size)
	return *own
}

// compute runs one clock of all splits of the team, some in parallel, and adds up their changes. It returns each split's measurements; for
// an error, also the split that caused it, if it was one.
func (w *workspace) compute(ctx context.Context, t roundSplits, c ps.Clock, evaluate bool) (stats []apps.Stats, at int, err error) {
	if t.joint != nil {
		w.shares.spread(w.given)
		stats, err = t.joint.Run(c, w.shares, evaluate)
		return stats, -1, err
	}
	splits := t.splits
	stats = make([]apps.Stats, len(splits))
	faults := make([]error, len(splits))
	threads := min(w.threads, max(mostCopies/max(len(w.given), 1), 1))
	parallel.For(threads, len(splits), func(thread, i int) {
		if faults[i] = ctx.Err(); faults[i] == nil {
			stats[i], faults[i] = w.copies[thread].compute(w.asked[i], splits[i], c, evaluate)
		}
	})
	for i, err := range faults {
		if err != nil {
			return nil, i, err
		}
	}
	return stats, -1, nil
}

// compute runs one clock of a split that reads these rows.
func (c *copies) compute(asked []ps.Key, split apps.Split, clock ps.Clock, evaluate bool) (apps.Stats, error) {
	c.take(asked)
	defer c.leave()
	stats, err := split.Run(clock, c, evaluate)
	if err != nil {
		return stats, err
	}
	c.space.summing.Lock()
	defer c.space.summing.Unlock()
	return stats, c.space.sum(c)
}

// sum adds a split's differences to the team's. A row counts as changed if any split changed it, even if the sum is zero: whether a row is
// touched must not depend on how splits are grouped.
func (w *workspace) sum(c *copies) error {
	for _, slot := range c.slots {
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
		if err := w.add(slot, update); err != nil {
			k := w.keys[slot]
			return fmt.Errorf("row %d of table %s: %w", k.Row, w.schema.Tables[k.Table].Name, err)
		}
	}
	return nil
}

// add adds an update to a row's sum.
func (w *workspace) add(slot int, update []float32) error {
	first := w.touch(slot)
	from, to := w.offsets[slot], w.offsets[slot+1]
	switch {
	case w.schema.Deterministic:
		return ps.AddDifference(w.fixed[from:to], update)
	case !first:
		vector.Axpy(1, update, w.float[from:to])
	case &update[0] != &w.float[from]: // otherwise it is the sum: see alone
		copy(w.float[from:to], update)
	}
	return nil
}

// update returns what a split sends for a row: its gradient if the table has a rule, otherwise the change. Nil: nothing.
func (c *copies) update(slot int) []float32 {
	w := c.space
	from, to := w.offsets[slot], w.offsets[slot+1]
	if w.hasRule(slot) {
		if !c.stepped[slot] {
			return nil
		}
		return c.gradients[from:to]
	}
	c.difference = resized(c.difference, to-from)
	ps.Difference(c.difference, w.given[from:to], c.values[from:to])
	return c.difference
}

func (w *workspace) hasRule(slot int) bool {
	return w.ruled && w.schema.Tables[w.keys[slot].Table].Rule.Name != ps.Add
}

// touch marks a row as changed, and reports whether this is the first time: then the sum of floats is not set yet.
func (w *workspace) touch(slot int) (first bool) {
	if first = !w.changed[slot]; first && w.schema.Deterministic {
		clear(w.fixed[w.offsets[slot]:w.offsets[slot+1]])
	}
	w.changed[slot] = true
	return first
}

// sumCounts is sum for a row of an Int32 table.
func (w *workspace) sumCounts(c *copies, slot int) error {
	from, to := w.offsets[slot], w.offsets[slot+1]
	given, changed := ps.Ints(w.given[from:to]), ps.Ints(c.values[from:to])
	if slices.Equal(given, changed) {
		return nil
	}
	first := w.touch(slot)
	if w.schema.Deterministic {
		return ps.AddCounts(w.fixed[from:to], given, changed)
	}
	if first {
		clear(w.float[from:to])
	}
	c.difference = resized(c.difference, to-from)
	difference := ps.Ints(c.difference)
	if err := ps.DifferenceInts(difference, given, changed); err != nil {
		return err
	}
	return ps.AddInts(ps.Ints(w.float[from:to]), difference)
}

// updates returns the team's sums, one entry per partition. If keep is set they share no memory with the workspace, otherwise they are
// valid until the next begin.
func (w *workspace) updates(t roundSplits, keep bool) []ps.Sums {
	if t.joint != nil {
		return w.shares.updates(w, t.joint, keep)
	}
	sums := make([]ps.Sums, w.schema.Partitions)
	if !keep && !w.schema.HasSparse() {
		w.sent = resized(w.sent, len(w.keys))
		for p := range sums {
			sums[p] = w.inPlace(ps.Partition(p))
		}
		return sums
	}
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

// inPlace returns a partition's sums where they were added up: its rows are contiguous, and changed ones move up.
func (w *workspace) inPlace(p ps.Partition) ps.Sums {
	first, end := w.rows.begins[p], w.rows.begins[p+1]
	keys, at := w.sent[first:first:end], w.offsets[first]
	for slot := first; slot < end; slot++ {
		if !w.changed[slot] {
			continue
		}
		from, to := w.offsets[slot], w.offsets[slot+1]
		switch {
		case at == from:
			at = to
		case w.schema.Deterministic:
			at += copy(w.fixed[at:], w.fixed[from:to])
		default:
			at += copy(w.float[at:], w.float[from:to])
		}
		keys = append(keys, w.keys[slot])
	}
	u := ps.Sums{Keys: keys}
	if w.schema.Deterministic {
		u.Fixed = w.fixed[w.offsets[first]:at:at]
	} else {
		u.Float = w.float[w.offsets[first]:at:at]
	}
	return u
}

// take makes fresh copies of the rows that a split reads.
func (c *copies) take(keys []ps.Key) {
	w := c.space
	if w.plain {
		c.values = resized(c.values, len(w.given))
	}
	c.mine, c.stepped = resized(c.mine, len(w.keys)), resized(c.stepped, len(w.keys))
	switch {
	case w.alone:
		c.gradients = w.float
	case w.ruled:
		c.gradients = resized(c.own, len(w.given))
		c.own = c.gradients
	}
	c.slots = c.slots[:0]
	for _, k := range keys {
		slot := w.rows.slot(k)
		if c.mine[slot] {
			continue
		}
		c.slots = append(c.slots, slot)
		c.mine[slot], c.stepped[slot] = true, false
		if from, to := w.offsets[slot], w.offsets[slot+1]; !w.hasRule(slot) {
			copy(c.values[from:to], w.given[from:to])
		}
	}
}

func (c *copies) leave() {
	for _, slot := range c.slots {
		c.mine[slot] = false
	}
}

// Row implements apps.Rows.
func (c *copies) Row(k ps.Key) []float32 {
	slot := c.find(k)
	from, to := c.space.offsets[slot], c.space.offsets[slot+1]
	if c.space.hasRule(slot) {
		return c.space.given[from:to:to]
	}
	return c.values[from:to:to]
}

// Gradient implements apps.Gradient.
func (c *copies) Gradient(k ps.Key) []float32 {
	gradient, first := c.gradient(k)
	if first {
		clear(gradient)
	}
	return gradient
}

// UnsetGradient implements apps.UnsetGradient.
func (c *copies) UnsetGradient(k ps.Key) []float32 {
	gradient, _ := c.gradient(k)
	return gradient
}

// gradient also reports whether this is the first request: then it is not set.
func (c *copies) gradient(k ps.Key) (gradient []float32, first bool) {
	if c.space.schema.Tables[k.Table].Rule.Name == ps.Add {
		panic(fmt.Sprintf("node: a gradient for table %d, which has no rule", k.Table))
	}
	slot := c.find(k)
	from, to := c.space.offsets[slot], c.space.offsets[slot+1]
	first = !c.stepped[slot]
	c.stepped[slot] = true
	return c.gradients[from:to:to], first
}

func (c *copies) find(k ps.Key) (slot int) {
	slot = c.space.rows.slot(k)
	if slot < 0 || !c.mine[slot] {
		panic(fmt.Sprintf("node: row %d of table %d was not asked for", k.Row, k.Table))
	}
	return slot
}

// splitStats adds the split to a measurement.
func splitStats(id ps.Split, s apps.Stats) tiers.SplitStats {
	return tiers.SplitStats{Split: id, Examples: s.Examples, Loss: s.Loss,
		TestCount: s.TestCount, TestLoss: s.TestLoss, Work: s.Work}
}

// resized returns a slice of n elements, reusing the memory if it is large enough. Existing elements keep their values.
func resized[T any](s []T, n int) []T {
	return slices.Grow(s[:0], n)[:n]
}
