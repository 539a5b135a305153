package ps

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
)

// ownUpdates returns a contribution's updates in memory of their own. Done, called once at most, makes them useless.
func ownUpdates(t interface{ Errorf(string, ...any) }, c *Contribution) Sums {
	u := Sums{Keys: c.Updates.Keys, Fixed: slices.Clone(c.Updates.Fixed), Float: slices.Clone(c.Updates.Float)}
	done := false
	c.Done = func() {
		if done {
			t.Errorf("the memory of contribution %d of %d is freed twice", c.Sequence, c.Incarnation)
		}
		done = true
		for i := range u.Fixed {
			u.Fixed[i] = math.MaxInt64
		}
		for i := range u.Float {
			u.Float[i] = float32(math.NaN())
		}
	}
	return u
}

// A contribution's memory is free once its clock is folded: every piece of it, once.
func TestMemoryIsFreeOnceFolded(t *testing.T) {
	defer func(wide int) { wideRow = wide }(wideRow)
	for _, wide := range []int{2, 100} {
		for _, deterministic := range []bool{true, false} {
			t.Run(fmt.Sprintf("rows wide from %d, deterministic %v", wide, deterministic), func(t *testing.T) {
				wideRow = wide
				s := &Schema{Tables: []Table{{Name: "t", Rows: 20, Cols: 11}}, Partitions: 1, Splits: 3, Deterministic: deterministic}
				shard, freed, pieces := NewShard(s, 0), map[Clock]int{}, map[Clock]int{}
				commit := func(inc Incarnation, clock Clock) {
					t.Helper()
					c := contribution(s, 0, inc, uint64(clock), clock, Split(inc-1))
					c.Given = true
					rest := c.Updates
					for piece, more := 0, true; more; piece++ {
						part := *c
						part.Updates, rest = s.CutSums(&rest, 200)
						more = len(rest.Keys) > 0
						part.Done = func() { freed[clock]++ }
						if _, err := shard.StagePiece(&part, piece, more); err != nil {
							t.Fatal(err)
						}
						pieces[clock]++
					}
					if _, err := shard.Commit(inc, uint64(clock)); err != nil {
						t.Fatal(err)
					}
				}
				commit(1, 1)
				commit(1, 2)
				commit(2, 1)
				if kept := len(freed) == 0; kept != (wide == 2) || !kept && !maps.Equal(freed, pieces) {
					t.Errorf("before the fold %v of %v pieces are free", freed, pieces)
				}
				commit(3, 1)
				if shard.Folded() != 1 || freed[1] != pieces[1] || wide == 2 && freed[2] > 0 {
					t.Errorf("after clock %d %v of %v pieces are free", shard.Folded(), freed, pieces)
				}
				commit(3, 2)
				commit(2, 2)
				if shard.Folded() != 2 || !maps.Equal(freed, pieces) {
					t.Errorf("after clock %d %v of %v pieces are free", shard.Folded(), freed, pieces)
				}
			})
		}
	}
}
