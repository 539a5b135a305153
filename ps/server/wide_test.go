package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/client"
)

// TestRowsOf100000Columns trains on rows of the maximum width, over TCP and within a server's process: data that comes straight from tables
// to the memory of readers, while others commit, is what was committed.
func TestRowsOf100000Columns(t *testing.T) {
	for _, deterministic := range []bool{true, false} {
		t.Run(fmt.Sprintf("deterministic=%t", deterministic), func(t *testing.T) {
			const columns, rows, clocks = 100_000, 4, 6
			c := newCluster(t, ps.Schema{
				Tables: []ps.Table{
					{Name: "wide", Rows: rows, Cols: columns, Ranged: true},
					{Name: "counts", Kind: ps.Int32, Rows: rows, Cols: columns, Ranged: true},
				},
				Partitions: 2, Splits: 2, Deterministic: deterministic,
			}, nil, "a", "b", "r")
			keys := allKeys(&c.schema)
			step := func(column int) float32 { return float32(column%7 + 1) } // what a split adds to it in a clock
			sums := wideSums(&c.schema, keys, step)
			generation := c.generation
			work := func(ctx context.Context, cl *client.Client, split ps.Split) error {
				var got client.Rows
				for clock := ps.Clock(1); clock <= clocks; clock++ {
					if err := cl.Read(ctx, generation, clock, keys, &got); err != nil {
						return err
					}
					for i, k := range keys {
						if err := checkWide(&c.schema, k, got.At(i), clock, step); err != nil {
							return err
						}
					}
					err := cl.Contribute(ctx, generation, ps.Incarnation(split+1), uint64(clock), clock, []ps.Split{split}, sums)
					if err != nil {
						return err
					}
				}
				return nil
			}
			var working sync.WaitGroup
			clients := []*client.Client{c.client(""), c.client("a")}
			for split := range ps.Split(c.schema.Splits) {
				working.Go(func() {
					if err := work(c.ctx, clients[split], split); err != nil {
						t.Error(err)
					}
				})
			}
			working.Wait()
		})
	}
}

// wideSums returns the same step for every row.
func wideSums(s *ps.Schema, keys []ps.Key, step func(column int) float32) []client.PartitionSums {
	sums := make([]client.PartitionSums, s.Partitions)
	for p := range sums {
		sums[p].Partition = ps.Partition(p)
	}
	for _, k := range keys {
		u := &sums[s.PartitionOf(k)].Sums
		u.Keys = append(u.Keys, k)
		for column := range s.Cols(k) {
			x := step(column)
			switch counts := s.Kind(k) == ps.Int32; {
			case s.Deterministic && counts:
				u.Fixed = append(u.Fixed, int64(x))
			case s.Deterministic:
				u.Fixed = append(u.Fixed, int64(x)<<32)
			case counts:
				u.Float = append(u.Float, ps.Cells([]int32{int32(x)})[0])
			default:
				u.Float = append(u.Float, x)
			}
		}
	}
	return sums
}

// checkWide: work of a clock sees both splits' steps of all earlier clocks, and maybe the other split's of its own.
func checkWide(s *ps.Schema, k ps.Key, row []float32, clock ps.Clock, step func(column int) float32) error {
	least := 2 * float32(clock-1)
	for column, x := range row {
		if s.Kind(k) == ps.Int32 {
			x = float32(ps.Ints(row)[column])
		}
		steps := x / step(column)
		if steps != least && (s.Deterministic || steps != least+1) {
			return fmt.Errorf("clock %d reads %g steps in column %d of row %v", clock, steps, column, k)
		}
	}
	return nil
}
