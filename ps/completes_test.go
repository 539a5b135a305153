package ps

import (
	"slices"
	"testing"
)

// A contribution that completes a clock takes a shortcut, with the same rows, cuts and roll-backs as result.
func TestAContributionThatCompletes(t *testing.T) {
	s := &Schema{Tables: []Table{{Name: "t", Rows: 20, Cols: 11, Init: Init{Low: 1, High: 2}}}, Partitions: 1, Splits: 2}
	alone, last, slow := NewShard(s, 0), NewShard(s, 0), NewShard(s, 0)
	commit := func(shard *Shard, c *Contribution, completes bool) {
		t.Helper()
		if shard.completes(c) != completes {
			t.Errorf("clock %d of %v: completes is not %v", c.Clock, c.Splits, completes)
		}
		if _, err := shard.Stage(c); err != nil {
			t.Fatal(err)
		}
		if _, err := shard.Commit(c.Incarnation, c.Sequence); err != nil {
			t.Fatal(err)
		}
	}
	commitSlowly := func(c *Contribution) {
		t.Helper()
		p := slow.at(c.Clock)
		if err := p.add(&slow.rows, &c.Updates, false); err != nil {
			t.Fatal(err)
		}
		slow.counted(c)
		p.committed++
		if _, err := slow.fold(); err != nil {
			t.Fatal(err)
		}
	}
	for c := Clock(1); c <= 4; c++ {
		if c == 2 {
			for _, shard := range []*Shard{alone, last, slow} {
				if err := shard.NameCut(2); err != nil {
					t.Fatal(err)
				}
			}
		}
		whole := contribution(s, 0, 1, uint64(c), c, 0)
		first, second := contribution(s, 0, 1, uint64(c), c, 0), contribution(s, 0, 2, uint64(c), c, 1)
		if c == 3 { // the completing one has rows of its own, and lacks some that wait
			second.Updates.Keys, second.Updates.Float = second.Updates.Keys[1:], second.Updates.Float[11:]
			first.Updates.Keys, first.Updates.Float = first.Updates.Keys[:15], first.Updates.Float[:15*11]
			whole.Updates = first.Updates
		}
		commit(last, first, false)
		commit(last, second, true)
		commitSlowly(first)
		commitSlowly(second)
		whole.Splits = []Split{0, 1}
		whole.Updates.Keys = slices.Concat(whole.Updates.Keys, second.Updates.Keys) // some rows twice
		whole.Updates.Float = slices.Concat(whole.Updates.Float, second.Updates.Float)
		commit(alone, whole, true)
	}
	same := func(when string) {
		t.Helper()
		for _, k := range keysOf(s, 0) {
			for name, shard := range map[string]*Shard{"alone": alone, "last": last} {
				got, want := make([]float32, 11), make([]float32, 11)
				shard.Read(k, got)
				slow.Read(k, want)
				for i := range got { // the order of additions differs: the last bit may, too
					if d := got[i] - want[i]; d > 1e-4 || d < -1e-4 {
						t.Errorf("%s, %s, row %d: %v, not %v", when, name, k.Row, got, want)
					}
				}
			}
		}
	}
	same("at clock 4")
	for _, shard := range []*Shard{alone, last, slow} {
		if shard.Folded() != 4 || !shard.Passed(2) {
			t.Errorf("folded %d, cut passed %v", shard.Folded(), shard.Passed(2))
		}
		if err := shard.Rollback(2); err != nil {
			t.Fatal(err)
		}
	}
	same("after the roll-back")
}
