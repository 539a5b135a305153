package ps

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// A worker never reads a value older than its bound, whatever the order in which workers read, stage and commit, and whichever of several
// partitions they have reached; and it never sees work twice or in part. Each split adds one to its own column of every row in every clock,
// so that a row shows how far each split had come.
func TestReadsKeepTheBound(t *testing.T) {
	for _, staleness := range []Clock{0, 1, 3, Unbounded} {
		for _, kind := range []Kind{Float32, Int32} {
			t.Run(fmt.Sprintf("staleness=%d,%v", staleness, kind), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { runBounded(t, staleness, kind) })
			})
		}
	}
}

// splitRun is one split's worker.
type splitRun struct {
	clock  Clock // that it works on
	at     []int // by partition: how many of read, stage and commit are done
	staged int   // partitions that hold the contribution
	read   int
}

func runBounded(t *rapid.T, staleness Clock, kind Kind) {
	const splits, partitions, clocks = 3, 2, 6
	schema := &Schema{
		Tables:     []Table{{Name: "t", Kind: kind, Rows: 4, Cols: splits, Ranged: true, Sparse: rapid.Bool().Draw(t, "sparse")}},
		Partitions: partitions, Splits: splits, Staleness: staleness,
	}
	var shards []*Shard
	for p := range Partition(partitions) {
		shards = append(shards, NewShard(schema, p))
	}
	runs := make([]splitRun, splits)
	for i := range runs {
		runs[i] = splitRun{clock: 1, at: make([]int, partitions)}
	}
	for range 400 {
		split := rapid.IntRange(0, splits-1).Draw(t, "split")
		p := rapid.IntRange(0, partitions-1).Draw(t, "partition")
		run, shard := &runs[split], shards[p]
		if run.clock > clocks {
			continue
		}
		switch {
		case run.at[p] == 0 && shard.CanRead(run.clock):
			checkBound(t, schema, shard, Partition(p), Split(split), run.clock)
			run.at[p], run.read = 1, run.read+1
		case run.at[p] == 1 && run.read == partitions:
			if _, err := shard.Stage(ones(schema, Partition(p), Split(split), run.clock)); err != nil {
				t.Fatal(err)
			}
			run.at[p], run.staged = 2, run.staged+1
		case run.at[p] == 2 && run.staged == partitions:
			if _, err := shard.Commit(Incarnation(split+1), uint64(run.clock)); err != nil {
				t.Fatal(err)
			}
			run.at[p] = 3
			if run.at[0] == 3 && run.at[1] == 3 {
				runs[split] = splitRun{clock: run.clock + 1, at: make([]int, partitions)}
			}
		}
	}
}

func checkBound(t *rapid.T, s *Schema, shard *Shard, p Partition, reader Split, clock Clock) {
	for _, k := range keysOf(s, p) {
		row := make([]float32, s.Cols(k))
		shard.Read(k, row)
		for split, x := range row {
			held := Clock(x)
			if s.Kind(k) == Int32 {
				held = Clock(Ints(row)[split])
			}
			if held < clock-s.Staleness-1 || held != shard.Mark(Split(split)) || Split(split) == reader && held != clock-1 {
				t.Fatalf("split %d at clock %d, staleness %d: row %v holds %d clocks of split %d, which has committed %d",
					reader, clock, s.Staleness, k, held, split, shard.Mark(Split(split)))
			}
		}
	}
}

func ones(s *Schema, p Partition, split Split, clock Clock) *Contribution {
	c := &Contribution{Incarnation: Incarnation(split + 1), Sequence: uint64(clock), Clock: clock, Splits: []Split{split}}
	for _, k := range keysOf(s, p) {
		row := make([]float32, s.Cols(k))
		if row[split] = 1; s.Kind(k) == Int32 {
			Ints(row)[split] = 1
		}
		s.AppendSum(&c.Updates, k, nil, row)
	}
	return c
}
