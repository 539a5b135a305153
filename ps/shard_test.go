package ps

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// smallSchema has few rows, so that schedules collide on them.
func smallSchema(deterministic bool, staleness Clock) *Schema {
	return &Schema{
		Tables: []Table{
			{Name: "zero", Rows: 6, Cols: 2},
			{Name: "uniform", Rows: 5, Cols: 3, Init: Init{Low: -1, High: 1}},
			{Name: "counts", Kind: Int32, Rows: 5, Cols: 2, Ranged: true},
			{Name: "momentum", Rows: 4, Cols: 2, Init: Init{Low: -1, High: 1}, Rule: Rule{Name: SGD, Rate: 0.01, Momentum: 0.9}},
			{Name: "lasso", Rows: 4, Cols: 2, Init: Init{Low: -1, High: 1}, Ranged: true, Rule: Rule{Name: AdaGrad, Rate: 0.1, L1: 0.01}},
			{Name: "sparse", Rows: 5, Cols: 9, Sparse: true},
			{Name: "sparse counts", Kind: Int32, Rows: 4, Cols: 7, Sparse: true, Ranged: true},
		},
		Partitions: 1, Splits: 4, Staleness: staleness, Seed: 11, Deterministic: deterministic,
	}
}

func keysOf(s *Schema, p Partition) (keys []Key) {
	for t := range s.Tables {
		for row := range s.Tables[t].Rows {
			if k := (Key{TableID(t), RowID(row)}); s.PartitionOf(k) == p {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// update returns what a split adds to a row in a clock: nothing for some rows. Multiples of 1/8 add up exactly in floats, too.
func update(s *Schema, split Split, c Clock, k Key, column int) (float32, bool) {
	h := Hash(uint64(split), uint64(c), uint64(k.Table), uint64(k.Row))
	if s.Tables[k.Table].Sparse && (h>>20+uint64(column))%5 > 0 {
		return 0, h%2 == 0
	}
	return float32(int(h>>8%64)+column) / 8, h%2 == 0
}

// count returns what an update adds to a row of counts: enough that a sum in floats would be inexact.
func count(x float32) int32 {
	n := int32(8*x) * 100_001
	if n%2 != 0 {
		return -n
	}
	return n
}

func contribution(s *Schema, p Partition, inc Incarnation, seq uint64, c Clock, splits ...Split) *Contribution {
	out := &Contribution{Incarnation: inc, Sequence: seq, Clock: c, Splits: splits}
	for _, k := range keysOf(s, p) {
		fixedSum, floatSum, changed := make([]int64, s.Cols(k)), make([]float32, s.Cols(k)), false
		for _, split := range splits {
			if _, ok := update(s, split, c, k, 0); !ok {
				continue
			}
			changed = true
			for i := range fixedSum {
				x, _ := update(s, split, c, k, i)
				if s.Kind(k) == Int32 {
					fixedSum[i] += int64(count(x))
					Ints(floatSum)[i] += count(x)
				} else {
					fixed, _ := ToFixed(x)
					fixedSum[i], floatSum[i] = fixedSum[i]+fixed, floatSum[i]+x
				}
			}
		}
		if changed {
			s.AppendSum(&out.Updates, k, fixedSum, floatSum)
		}
	}
	return out
}

// twin is the slow model: the updates that count, in order, from which any state is recomputed.
type twin struct {
	schema *Schema
	marks  []Clock // the last clock that each split has committed
}

func (w *twin) folded() Clock { return slices.Min(w.marks) }

// row returns what a row must be after all updates of every clock up to folded; beyond adds what was committed later.
func (w *twin) row(k Key, folded Clock, beyond bool) []float32 {
	if w.schema.Kind(k) == Int32 {
		return w.counts(k, folded, beyond)
	}
	table := &w.schema.Tables[k.Table]
	if ruled := table.Rule.Name != Add; ruled {
		return w.ruled(table, k, folded)
	}
	row := make([]float32, w.schema.Cols(k))
	InitRow(w.schema.Seed, w.schema.Tables[k.Table], k.Table, k.Row, row)
	for c := Clock(1); c <= slices.Max(w.marks); c++ {
		sum, touched := make([]float32, len(row)), false
		for split, mark := range w.marks {
			if c > folded && (!beyond || mark < c) {
				continue
			}
			for i := range sum {
				x, ok := update(w.schema, Split(split), c, k, i)
				if ok {
					sum[i] += x
					touched = true
				}
			}
		}
		for i := range row {
			if touched {
				row[i] += sum[i]
			}
		}
	}
	return row
}

// ruled is row for a table with a rule: step by step.
func (w *twin) ruled(table *Table, k Key, folded Clock) []float32 {
	cells, row := make([]float32, table.Width()), make([]float32, table.Cols)
	InitRow(w.schema.Seed, *table, k.Table, k.Row, cells[:table.Cols])
	for c := Clock(1); c <= folded; c++ {
		gradient, touched := make([]float32, table.Cols), false
		for split := range w.marks {
			for i := range gradient {
				if x, ok := update(w.schema, Split(split), c, k, i); ok {
					gradient[i] += x
					touched = true
				}
			}
		}
		if touched {
			table.Step(cells, gradient, c)
		}
	}
	table.Seen(row, cells, folded)
	return row
}

// counts is row for a table of counts: integers add up in any order, so this is simpler.
func (w *twin) counts(k Key, folded Clock, beyond bool) []float32 {
	row := make([]int32, w.schema.Cols(k))
	for split, mark := range w.marks {
		if !beyond {
			mark = min(mark, folded)
		}
		for c := Clock(1); c <= mark; c++ {
			for i := range row {
				if x, ok := update(w.schema, Split(split), c, k, i); ok {
					row[i] += count(x)
				}
			}
		}
	}
	return Cells(row)
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// schedule drives a shard, its backup and the twin by drawn steps.
type schedule struct {
	*rapid.T
	schema   *Schema
	shard    *Shard
	backup   *Backup
	twin     twin
	sequence []uint64 // of each worker; worker w has incarnation w+1
	staged   []*Contribution
	incoming *Incoming
	cut      Clock // outstanding; 0 = none
	held     Clock // committed
	noUndo   bool  // moved since the committed cut
}

const workers = 2 // each has half of the splits

func newSchedule(t *rapid.T, schema *Schema) *schedule {
	return &schedule{
		T: t, schema: schema, shard: NewShard(schema, 0), backup: NewBackup(schema, 0),
		twin:     twin{schema: schema, marks: make([]Clock, schema.Splits)},
		sequence: make([]uint64, workers), staged: make([]*Contribution, workers),
	}
}

func (s *schedule) splits(worker int) []Split { return []Split{Split(2 * worker), Split(2*worker + 1)} }

// drawn worker.
func (s *schedule) worker() int { return rapid.IntRange(0, workers-1).Draw(s.T, "worker") }

func (s *schedule) stage(t *rapid.T) {
	w := s.worker()
	c := s.staged[w]
	if c == nil {
		clock := s.twin.marks[2*w] + 1
		if !s.shard.CanRead(clock) {
			t.Skip("the worker waits")
		}
		c = contribution(s.schema, 0, Incarnation(w+1), s.sequence[w]+1, clock, s.splits(w)...)
		c.Given = rapid.Bool().Draw(t, "given")
	}
	s.stagePieces(t, c)
	s.staged[w] = c
}

// stagePieces stages a contribution in one piece or in several, some more than once.
func (s *schedule) stagePieces(t *rapid.T, c *Contribution) {
	most := rapid.SampledFrom([]int{0, 100, 1 << 20}).Draw(t, "bytes")
	rest := c.Updates
	for piece, more := 0, true; more; piece++ {
		part := *c
		part.Updates, rest = s.schema.CutSums(&rest, most)
		more = len(rest.Keys) > 0
		for range rapid.IntRange(1, 2).Draw(t, "times") {
			again := part
			if c.Given {
				again.Updates = ownUpdates(t, &again)
			}
			if committed, err := s.shard.StagePiece(&again, piece, more); err != nil || committed {
				t.Fatalf("stage piece %d: %v, %v", piece, committed, err)
			}
		}
		if skipped := part; more && s.staged[int(c.Incarnation)-1] == nil {
			if _, err := s.shard.StagePiece(&skipped, piece+2, true); !errors.Is(err, ErrNotStaged) {
				t.Fatalf("stage piece %d after %d: %v", piece+2, piece, err)
			}
			if _, err := s.shard.Commit(c.Incarnation, c.Sequence); !errors.Is(err, ErrNotStaged) {
				t.Fatalf("commit after piece %d: %v", piece, err)
			}
			if rapid.IntRange(0, 9).Draw(t, "anew") == 0 {
				s.stagePieces(t, c)
				return
			}
		}
	}
}

func (s *schedule) commit(t *rapid.T) {
	w := s.worker()
	c := s.staged[w]
	if c == nil {
		t.Skip("nothing staged")
	}
	before := s.shard.Folded()
	folded, err := s.shard.Commit(c.Incarnation, c.Sequence)
	if err != nil {
		t.Fatal(err)
	}
	for _, split := range c.Splits {
		s.twin.marks[split] = c.Clock
	}
	if folded != (s.twin.folded() > before) {
		t.Fatalf("commit says folded: %v", folded)
	}
	s.sequence[w], s.staged[w] = c.Sequence, nil
	s.duplicate(t, c)
}

// clock makes all workers finish the lowest clock.
func (s *schedule) clock(t *rapid.T) {
	next := s.twin.folded() + 1
	for w := range workers {
		c := s.staged[w]
		if s.twin.marks[2*w] >= next {
			continue
		}
		if c == nil {
			c = contribution(s.schema, 0, Incarnation(w+1), s.sequence[w]+1, next, s.splits(w)...)
			if _, err := s.shard.Stage(c); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.shard.Commit(c.Incarnation, c.Sequence); err != nil {
			t.Fatal(err)
		}
		for _, split := range c.Splits {
			s.twin.marks[split] = next
		}
		s.sequence[w], s.staged[w] = c.Sequence, nil
	}
}

// duplicate repeats committed contributions.
func (s *schedule) duplicate(t *rapid.T, c *Contribution) {
	if committed, err := s.shard.Stage(c); err != nil || !committed {
		t.Fatalf("staged again: %v, %v", committed, err)
	}
	if folded, err := s.shard.Commit(c.Incarnation, c.Sequence); err != nil || folded {
		t.Fatalf("committed again: %v, %v", folded, err)
	}
}

func (s *schedule) nameCut(t *rapid.T) {
	c := s.twin.folded() + Clock(rapid.IntRange(-1, 2).Draw(t, "ahead"))
	if c == s.held && s.cut != 0 {
		t.Skip("the committed cut again, while another is on its way: either answer is harmless")
	}
	err := s.shard.NameCut(c)
	switch {
	case c == s.held || c == s.cut && c != 0:
		if err != nil {
			t.Fatalf("named again: %v", err)
		}
	case s.cut != 0 || s.incoming != nil:
		if !errors.Is(err, ErrBusy) {
			t.Fatalf("cut %d while %d is under way or a move is: %v", c, s.cut, err)
		}
	case c < s.twin.folded():
		if !errors.Is(err, ErrPassed) {
			t.Fatalf("cut %d at %d: %v", c, s.twin.folded(), err)
		}
	case err != nil:
		t.Fatal(err)
	default:
		s.cut = c
	}
}

func (s *schedule) unnameCut(t *rapid.T) {
	if s.cut == 0 {
		t.Skip("no cut")
	}
	s.shard.UnnameCut(s.cut)
	s.backup.Drop()
	s.cut = 0
}

// deliver delivers the cut to the backup, and sometimes commits it.
func (s *schedule) deliver(t *rapid.T) {
	if s.cut == 0 || s.twin.folded() < s.cut {
		t.Skip("not passed")
	}
	if !s.shard.Passed(s.cut) {
		t.Fatalf("cut %d is not passed at %d", s.cut, s.twin.folded())
	}
	full := rapid.Bool().Draw(t, "full")
	for {
		d, err := s.shard.Deliver(s.cut, full)
		if err != nil {
			t.Fatal(err)
		}
		needFull, err := s.backup.Deliver(&d)
		if err != nil {
			t.Fatal(err)
		}
		if !needFull {
			break
		}
		full = true
	}
	if s.backup.Delivered() != s.cut {
		t.Fatalf("delivered %d", s.backup.Delivered())
	}
	if rapid.Bool().Draw(t, "commit") {
		s.commitCut(t)
	}
}

func (s *schedule) commitCut(t *rapid.T) {
	for range 2 {
		if err := errors.Join(s.shard.CommitCut(s.cut), s.backup.Commit(s.cut)); err != nil {
			t.Fatal(err)
		}
	}
	s.held, s.cut, s.noUndo = s.cut, 0, false
	s.checkBackup(t)
}

// checkBackup promotes the backup, and compares it with what was committed.
func (s *schedule) checkBackup(t *rapid.T) *Shard {
	promoted, err := s.backup.Promote(s.held)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keysOf(s.schema, 0) {
		row := make([]float32, s.schema.Cols(k))
		promoted.Read(k, row)
		if want := s.twin.row(k, s.held, false); !sameBits(row, want) {
			t.Fatalf("the backup of cut %d has row %v %v, not %v", s.held, k, row, want)
		}
	}
	return promoted
}

// returnTo restarts everything at the committed cut.
func (s *schedule) returnTo(shard *Shard) {
	s.shard = shard
	for i := range s.twin.marks {
		s.twin.marks[i] = s.held
	}
	s.backup.Drop()
	s.incoming, s.cut, s.noUndo = nil, 0, false
	clear(s.staged)
	clear(s.sequence) // the new generation's workers count from zero
}

func (s *schedule) rollBack(t *rapid.T) {
	promoted := s.checkBackup(t)
	err := s.shard.Rollback(s.held)
	if s.noUndo != errors.Is(err, ErrNoUndo) || !s.noUndo && err != nil {
		t.Fatalf("roll back after a move %v: %v", s.noUndo, err)
	}
	if s.noUndo || rapid.Bool().Draw(t, "promote") {
		s.returnTo(promoted)
	} else {
		s.returnTo(s.shard)
	}
}

func (s *schedule) move(t *rapid.T) {
	if s.incoming == nil {
		err := s.shard.BeginMove()
		if busy := s.cut != 0; busy != errors.Is(err, ErrBusy) || !busy && err != nil {
			t.Fatalf("begin to move with cut %d: %v", s.cut, err)
		}
		if err == nil {
			s.incoming = NewIncoming(s.schema, 0)
		}
		return
	}
	if rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
		s.shard.CancelMove()
		s.incoming = nil
		return
	}
	rows, more := s.shard.MoveRows(20)
	if err := s.incoming.Rows(&rows); err != nil {
		t.Fatal(err)
	}
	if more || rapid.Bool().Draw(t, "again") && s.shard.MoveAgain() {
		return
	}
	final, err := s.shard.FinalMove()
	if err != nil {
		t.Fatal(err)
	}
	bytes := s.shard.CutBytes()
	parts := final.Cut(s.schema, rapid.SampledFrom([]int{1, 300, 1 << 20}).Draw(t, "bytes"))
	whole, err := parts[0].Begin()
	for _, part := range parts[1:] {
		err = errors.Join(err, whole.Join(part))
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.shard, err = s.incoming.Finish(whole); err != nil {
		t.Fatal(err)
	}
	if s.shard.CutBytes() != bytes {
		t.Fatalf("a cut takes %d bytes before and %d after a move", bytes, s.shard.CutBytes())
	}
	s.incoming, s.noUndo = nil, true
}

// fence gives up a worker; another takes over its splits.
func (s *schedule) fence(t *rapid.T) {
	w := s.worker()
	inc := Incarnation(w + 1)
	c := s.staged[w]
	st := s.shard.Fence(inc)
	if st.Committed != s.sequence[w] || (c != nil) != (st.Staged == s.sequence[w]+1) {
		t.Fatalf("standing %+v, want %d and %v", st, s.sequence[w], c)
	}
	if _, err := s.shard.Stage(contribution(s.schema, 0, inc, 99, s.twin.marks[2*w]+1, s.splits(w)...)); !errors.Is(err, ErrFenced) {
		t.Fatalf("fenced worker stages: %v", err)
	}
	if _, err := s.shard.Commit(inc, st.Staged); !errors.Is(err, ErrFenced) {
		t.Fatalf("fenced worker commits: %v", err)
	}
	count := rapid.Bool().Draw(t, "count") && c != nil
	for range 2 {
		if _, err := s.shard.Settle(inc, s.sequence[w]+1, count); err != nil {
			t.Fatal(err)
		}
	}
	if count {
		s.sequence[w]++
		for _, split := range c.Splits {
			s.twin.marks[split] = c.Clock
		}
	}
	s.staged[w] = nil
	delete(s.shard.fenced, inc) // the model's workers keep their numbers
}

func (s *schedule) check(t *rapid.T) {
	if s.shard.Folded() != s.twin.folded() {
		t.Fatalf("folded %d, not %d", s.shard.Folded(), s.twin.folded())
	}
	for split, mark := range s.twin.marks {
		if got := s.shard.Mark(Split(split)); got != mark {
			t.Fatalf("mark of split %d is %d, not %d", split, got, mark)
		}
	}
	if base, undo := s.shard.Base(); base != s.held || undo == s.noUndo {
		t.Fatalf("base %d, undo %v, not %d", base, undo, s.held)
	}
	for _, k := range keysOf(s.schema, 0) {
		row := make([]float32, s.schema.Cols(k))
		s.shard.Read(k, row)
		if want := s.twin.row(k, s.twin.folded(), !s.schema.Deterministic); !sameBits(row, want) {
			t.Fatalf("row %v reads %v, not %v", k, row, want)
		}
	}
	least := slices.Max(s.twin.marks) + 1 // the lowest clock that a worker might not begin
	for c := Clock(1); c <= least+3; c++ {
		if s.shard.CanRead(c) != (s.twin.folded() >= c-s.schema.Bound()-1) {
			t.Fatalf("clock %d may read at %d with staleness %d: %v", c, s.twin.folded(), s.schema.Bound(), s.shard.CanRead(c))
		}
	}
}

// Any schedule of contributions, cuts, deliveries, moves, fences and roll-backs leaves exactly the state that
// its list of updates gives.
func TestShardAgainstTwin(t *testing.T) {
	defer func(wide int) { wideRow = wide }(wideRow)
	wideRow = 2 // of some tables here
	for _, schema := range []*Schema{smallSchema(true, 0), smallSchema(false, 0), smallSchema(false, 2), smallSchema(false, Unbounded)} {
		t.Run(fmt.Sprintf("deterministic=%v,staleness=%d", schema.Deterministic, schema.Staleness), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := newSchedule(t, schema)
				t.Repeat(map[string]func(*rapid.T){
					"stage": s.stage, "commit": s.commit, "clock": s.clock, "clock again": s.clock, "clock once more": s.clock,
					"name": s.nameCut, "unname": s.unnameCut, "name more": s.nameCut, "deliver": s.deliver, "deliver more": s.deliver,
					"move": s.move, "move on": s.move, "fence": s.fence, "roll back": s.rollBack, "": s.check,
				})
			})
		})
	}
}

// In deterministic mode the bits do not depend on the order of contributions, nor on how splits are spread over
// workers, even for numbers whose float sums do depend on it.
func TestOrderDoesNotMatter(t *testing.T) {
	schema := smallSchema(true, 0)
	rapid.Check(t, func(t *rapid.T) {
		values := make([][]int64, schema.Splits)
		for split := range values {
			x := rapid.Float32Range(-1e6, 1e6).Draw(t, "value")
			values[split] = []int64{mustFixed(t, x), mustFixed(t, x/7919)}
		}
		run := func(order []int) []float32 {
			s := NewShard(schema, 0)
			for i, split := range order {
				c := &Contribution{
					Incarnation: Incarnation(split + 1), Sequence: 1, Clock: 1, Splits: []Split{Split(split)},
					Updates: Sums{Keys: []Key{{Table: 0, Row: 3}}, Fixed: values[split]},
				}
				if _, err := s.Stage(c); err != nil {
					t.Fatal(err)
				}
				if folded, err := s.Commit(c.Incarnation, 1); err != nil || folded != (i == len(order)-1) {
					t.Fatal(folded, err)
				}
			}
			row := make([]float32, 2)
			s.Read(Key{Table: 0, Row: 3}, row)
			return row
		}
		straight := []int{0, 1, 2, 3}
		if a, b := run(straight), run(rapid.Permutation(straight).Draw(t, "order")); !sameBits(a, b) {
			t.Fatalf("%v in one order, %v in another", a, b)
		}
	})
}

func mustFixed(t *rapid.T, x float32) int64 {
	fixed, err := ToFixed(x)
	if err != nil {
		t.Fatal(err)
	}
	return fixed
}
