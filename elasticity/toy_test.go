package elasticity

import (
	"slices"
	"sync"

	"github.com/tierml/tierml/ps"
)

// Two toys are trained. The deterministic one adds to each row a value that depends on what was read, so that a wrong read or a lost update
// shows in every later state; its state after each clock is known beforehand, bit for bit. The other one counts: each row has a column for
// each split, to which the split adds one per clock. Sums of small integers are exact in any order, and a read shows how far every split
// had come. In random worlds (shape.mixed) both have a table of int32 counts, whose sums are the work that was done, besides the floats;
// the deterministic one also has a table with a rule.

// leastClocks are known for every world, so that worlds of different lengths share them.
const leastClocks = 100

func toySchema(s shape) ps.Schema {
	schema := ps.Schema{
		Tables:     []ps.Table{{Name: "x", Rows: 30, Cols: 2, Init: ps.Init{Low: -1, High: 1}}},
		Partitions: s.partitions, Splits: s.splits, Seed: 7, Deterministic: true,
	}
	if !s.deterministic {
		schema.Tables = []ps.Table{{Name: "counts", Rows: 15, Cols: s.splits}}
		schema.Deterministic, schema.Staleness = false, s.staleness
	}
	switch {
	case s.mixed && s.deterministic:
		schema.Tables = append(schema.Tables,
			ps.Table{Name: "work", Kind: ps.Int32, Rows: 5, Cols: 9, Sparse: true},
			ps.Table{Name: "w", Rows: 5, Cols: 2, Init: ps.Init{Low: -1, High: 1}, Ranged: true,
				Rule: ps.Rule{Name: ps.SGD, Rate: 0.125, Momentum: 0.5}})
	case s.mixed:
		schema.Tables = append(schema.Tables, ps.Table{Name: "exact", Kind: ps.Int32, Rows: 5, Cols: s.splits, Ranged: true})
	}
	return schema
}

// update returns what one of several splits adds to a row at a clock in the deterministic toy, whose rows stay in bounds for any number of
// splits.
func update(split ps.Split, of int, clock ps.Clock, row []float32) []float32 {
	out := make([]float32, len(row))
	gain := float32(0.01)
	if of > 12 {
		gain = 0.12 / float32(of)
	}
	for i, v := range row {
		out[i] = float32(v*gain) + float32(int(split+1)*(int(clock)%7-3))*0.001
	}
	return out
}

// touches reports whether a clock changes a row: not every clock touches every row.
func touches(clock ps.Clock, key ps.Key) bool { return (int(key.Row)+int(clock))%3 != 0 }

func (w *world) addUpdates(total []int64, key ps.Key, splits []ps.Split, clock ps.Clock, row []float32) {
	for _, s := range splits {
		if w.schema.Kind(key) == ps.Int32 {
			total[int(key.Row)%3] += int64(s + 1) // few columns: the rows are sparse
			continue
		}
		if err := ps.AddDifference(total, update(s, w.schema.Splits, clock, row)); err != nil {
			panic(err)
		}
	}
}

// sums returns a group's contribution to a clock. Index: Partition.
func (w *world) sums(clock ps.Clock, group []ps.Split, rows map[ps.Key][]float32) []ps.Sums {
	out := make([]ps.Sums, w.schema.Partitions)
	for p, keys := range w.keys {
		u := &out[p]
		for _, key := range keys {
			if !w.schema.Deterministic {
				w.schema.AppendSum(u, key, nil, w.jointly(key, group, rows[key]))
				continue
			}
			if touches(clock, key) {
				total := make([]int64, len(rows[key]))
				w.addUpdates(total, key, group, clock, rows[key])
				w.schema.AppendSum(u, key, total, nil)
			}
		}
	}
	return out
}

// jointly returns a group's change of a row of the counting toy, whose splits work on one copy of given (apps.Joining).
func (w *world) jointly(key ps.Key, group []ps.Split, given []float32) []float32 {
	row, changed := slices.Clone(given), make([]float32, len(given))
	if w.schema.Kind(key) == ps.Int32 {
		for _, s := range group {
			ps.Ints(row)[s]++
		}
		if err := ps.DifferenceInts(ps.Ints(changed), ps.Ints(given), ps.Ints(row)); err != nil {
			panic(err)
		}
		return changed
	}
	for _, s := range group {
		row[s]++
	}
	ps.Difference(changed, given, row)
	return changed
}

// known holds the deterministic toy's states by number of splits, of tables and of clocks.
var known = struct {
	sync.Mutex // tests run in parallel
	states     map[[3]int][]map[ps.Key][]float32
}{states: map[[3]int][]map[ps.Key][]float32{}}

// undisturbed computes the deterministic toy's state after every clock, without any machine. Index: clock.
func (w *world) undisturbed() []map[ps.Key][]float32 {
	if !w.schema.Deterministic {
		return nil
	}
	which := [3]int{w.schema.Splits, len(w.schema.Tables), max(w.shape.clocks, leastClocks)}
	known.Lock()
	defer known.Unlock()
	if states := known.states[which]; states != nil {
		return states
	}
	var splits []ps.Split
	for s := range w.schema.Splits {
		splits = append(splits, ps.Split(s))
	}
	first := map[ps.Key][]float32{}
	for _, k := range slices.Concat(w.keys...) {
		first[k] = make([]float32, w.schema.Cols(k))
		ps.InitRow(w.schema.Seed, w.schema.Tables[k.Table], k.Table, k.Row, first[k])
	}
	states := []map[ps.Key][]float32{first}
	ruled := map[ps.Key][]float32{} // rows of the table with a rule as they are stored
	for k, row := range first {
		if t := &w.schema.Tables[k.Table]; t.Rule.Name != ps.Add {
			ruled[k] = append(slices.Clone(row), make([]float32, t.Width()-t.Cols)...)
		}
	}
	for clock := ps.Clock(1); clock <= ps.Clock(which[2]); clock++ {
		next := map[ps.Key][]float32{}
		for k, before := range states[clock-1] {
			next[k] = slices.Clone(before)
			if touches(clock, k) {
				total := make([]int64, len(before))
				w.addUpdates(total, k, splits, clock, before)
				w.foldToy(k, next[k], ruled[k], total, clock)
			}
			if cells := ruled[k]; cells != nil {
				w.schema.Tables[k.Table].Seen(next[k], cells, clock)
			}
		}
		states = append(states, next)
	}
	known.states[which] = states
	return states
}

// foldToy applies a clock's sum as an owner does.
func (w *world) foldToy(k ps.Key, row, ruled []float32, total []int64, clock ps.Clock) {
	switch {
	case ruled != nil:
		gradient := make([]float32, len(total))
		ps.FoldSum(gradient, total)
		w.schema.Tables[k.Table].Step(ruled, gradient, clock)
	case w.schema.Kind(k) == ps.Int32:
		if err := ps.FoldCounts(ps.Ints(row), total); err != nil {
			panic(err)
		}
	default:
		ps.FoldSum(row, total)
	}
}

// counted returns how many clocks of a split a row of the counting toy holds.
func (w *world) counted(key ps.Key, row []float32, split int) ps.Clock {
	if w.schema.Kind(key) == ps.Int32 {
		return ps.Clock(ps.Ints(row)[split])
	}
	return ps.Clock(row[split])
}

// checkRead checks what a split sees when it begins a clock: in the deterministic toy, the state after the clock before and nothing else.
// In the counting one, of every split at least what staleness requires and at most what it allows, and all of its own. A worker that was
// given up may read anything: its results will not count.
func (w *world) checkRead(n *node, clock ps.Clock, group []ps.Split, key ps.Key, row []float32) {
	if m := w.ctrl.training.Nodes.ByID[n.id]; m == nil || m.Lost {
		return
	}
	if w.schema.Deterministic {
		if want := w.truth[clock-1][key]; !slices.Equal(row, want) {
			w.failf("%s clock %d: row %v reads %v, undisturbed %v\n%s", n.id, clock, key, row, want, w.describe())
		}
		return
	}
	for s := range row {
		at, own := w.counted(key, row, s), slices.Contains(group, ps.Split(s))
		if at < clock-w.schema.Staleness-1 || at > clock+w.schema.Staleness || own && at != clock-1 {
			w.failf("%s works on splits %v, clock %d, staleness %d: row %v holds %d clocks of split %d\n%s", n.id, group, clock,
				w.schema.Staleness, key, at, s, w.describe())
		}
	}
}

// checkRows checks that a partition is exactly the state after a clock: every update up to it, once, and none after it.
func (w *world) checkRows(what string, p ps.Partition, s *ps.Shard, clock ps.Clock) {
	if s.Folded() != clock {
		w.failf("%s %d is at clock %d, not %d", what, p, s.Folded(), clock)
	}
	for split := range w.schema.Splits {
		if mark := s.Mark(ps.Split(split)); mark != clock {
			w.failf("%s %d: split %d is at clock %d, not %d", what, p, split, mark, clock)
		}
	}
	for _, key := range w.keys[p] {
		row := make([]float32, w.schema.Cols(key))
		s.Read(key, row)
		want := make([]float32, len(row))
		if w.schema.Deterministic {
			want = w.truth[clock][key]
		} else {
			for i := range want {
				if want[i] = float32(clock); w.schema.Kind(key) == ps.Int32 {
					ps.Ints(want)[i] = int32(clock)
				}
			}
		}
		if !slices.Equal(row, want) {
			w.failf("%s %d at clock %d: row %v is %v, not %v\n%s", what, p, clock, key, row, want, w.describe())
		}
	}
}
