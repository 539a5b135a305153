package ps

import (
	"errors"
	"math"
	"slices"
	"testing"
)

func countsSchema(deterministic bool) *Schema {
	return &Schema{
		Tables:     []Table{{Name: "counts", Kind: Int32, Rows: 2, Cols: 2}},
		Partitions: 1, Splits: 2, Deterministic: deterministic,
	}
}

// addCounts contributes counts for one split and clock.
func addCounts(t *testing.T, s *Shard, split Split, clock Clock, counts ...int32) error {
	t.Helper()
	c := &Contribution{Incarnation: Incarnation(split + 1), Sequence: uint64(clock), Clock: clock, Splits: []Split{split}}
	c.Updates.Keys = []Key{{Row: 1}}
	if s.schema.Deterministic {
		for _, n := range counts {
			c.Updates.Fixed = append(c.Updates.Fixed, int64(n))
		}
	} else {
		c.Updates.Float = Cells(counts)
	}
	if _, err := s.Stage(c); err != nil {
		t.Fatal(err)
	}
	_, err := s.Commit(c.Incarnation, c.Sequence)
	return err
}

// Counts that a float32 could not distinguish stay exact.
func TestCountsAreExact(t *testing.T) {
	for _, deterministic := range []bool{true, false} {
		s := NewShard(countsSchema(deterministic), 0)
		for clock := Clock(1); clock <= 3; clock++ {
			for split := range Split(2) {
				if err := addCounts(t, s, split, clock, 1<<27+1, -(1<<24 + 1)); err != nil {
					t.Fatal(err)
				}
			}
		}
		row := make([]float32, 2)
		s.Read(Key{Row: 1}, row)
		if want := []int32{6 * (1<<27 + 1), -6 * (1<<24 + 1)}; !slices.Equal(Ints(row), want) {
			t.Errorf("deterministic %v: counts %v, want %v", deterministic, Ints(row), want)
		}
	}
}

// A count that does not fit is refused at the contribution that causes it, and never wraps around.
func TestCountsOverflow(t *testing.T) {
	for _, deterministic := range []bool{true, false} {
		for _, sign := range []int32{1, -1} {
			s := NewShard(countsSchema(deterministic), 0)
			first := addCounts(t, s, 0, 1, 0, sign*(1<<30))
			second := addCounts(t, s, 1, 1, 0, sign*(1<<30))
			if first == nil && second == nil { // -2^31 fits
				if first, second = addCounts(t, s, 0, 2, 0, -1), addCounts(t, s, 1, 2, 0, 0); sign > 0 {
					t.Error("2^31 was taken for a count")
				}
			}
			if !errors.Is(errors.Join(first, second), ErrOverflow) {
				t.Errorf("deterministic %v, sign %d: %v, %v; want ErrOverflow", deterministic, sign, first, second)
			}
		}
	}
}

func TestCountArithmetic(t *testing.T) {
	const most, least = math.MaxInt32, math.MinInt32
	sum := []int64{5, 0}
	if err := AddCounts(sum, []int32{least, 7}, []int32{most, 3}); err != nil || !slices.Equal(sum, []int64{1<<32 + 4, -4}) {
		t.Error(sum, err)
	}
	for name, err := range map[string]error{
		"AddCounts":      AddCounts([]int64{math.MaxInt64}, []int32{0}, []int32{1}),
		"AddInts above":  AddInts([]int32{most}, []int32{1}),
		"AddInts below":  AddInts([]int32{least}, []int32{-1}),
		"DifferenceInts": DifferenceInts([]int32{0}, []int32{-1}, []int32{most}),
		"FoldCounts":     FoldCounts([]int32{most}, []int64{1}),
		"FoldCounts 64":  FoldCounts([]int32{1}, []int64{math.MaxInt64}),
	} {
		if !errors.Is(err, ErrOverflow) {
			t.Errorf("%s: %v, want ErrOverflow", name, err)
		}
	}
	for name, err := range map[string]error{
		"AddCounts": AddCounts(make([]int64, 2), make([]int32, 2), make([]int32, 1)),
		"AddInts":   AddInts(make([]int32, 2), make([]int32, 1)),
	} {
		if err == nil || errors.Is(err, ErrOverflow) {
			t.Errorf("%s took rows of different lengths: %v", name, err)
		}
	}
	if s := Float32.String() + Int32.String() + Kind(9).String(); s != "float32int32kind 9" {
		t.Error(s)
	}
}
