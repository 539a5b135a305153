package server_test

import (
	"fmt"
	"testing"

	"github.com/tierml/tierml/internal/raced"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/client"
)

// BenchmarkClock measures what one clock costs a worker: a Read of a given number of bytes of rows, and a contribution that updates all,
// over TCP on loopback or within the process.
func BenchmarkClock(b *testing.B) {
	for _, deterministic := range []bool{true, false} {
		for _, size := range []int{1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("deterministic=%v/%dKiB", deterministic, size>>10), func(b *testing.B) {
				benchmarkClock(b, deterministic, size, "")
			})
		}
	}
	b.Run("local/64KiB", func(b *testing.B) { benchmarkClock(b, true, 64<<10, "a") })
}

const benchCols = 32

func benchSchema(deterministic bool, bytes int) ps.Schema {
	return ps.Schema{
		Tables:     []ps.Table{{Name: "t", Rows: uint64(bytes / 4 / benchCols), Cols: benchCols}},
		Partitions: 16, Splits: 1, Deterministic: deterministic,
	}
}

func benchmarkClock(b *testing.B, deterministic bool, bytes int, local ps.ServerID) {
	c := newCluster(b, benchSchema(deterministic, bytes), nil, "a", "r")
	cl := c.client(local)
	keys := allKeys(&c.schema)
	sums := benchSums(&c.schema, keys)
	var rows client.Rows
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	clock := ps.Clock(0)
	for b.Loop() {
		clock++
		if err := cl.Read(c.ctx, 1, clock, keys, &rows); err != nil {
			b.Fatal(err)
		}
		if err := cl.Contribute(c.ctx, 1, 1, uint64(clock), clock, []ps.Split{0}, sums); err != nil {
			b.Fatal(err)
		}
	}
}

func benchSums(s *ps.Schema, keys []ps.Key) []client.PartitionSums {
	sums := make([]client.PartitionSums, s.Partitions)
	for p := range sums {
		sums[p].Partition = ps.Partition(p)
	}
	for _, k := range keys {
		u := &sums[s.PartitionOf(k)].Sums
		u.Keys = append(u.Keys, k)
		if s.Deterministic {
			u.Fixed = append(u.Fixed, make([]int64, s.Cols(k))...)
		} else {
			u.Float = append(u.Float, make([]float32, s.Cols(k))...)
		}
	}
	return sums
}

// BenchmarkRead measures only the reading.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			c := newCluster(b, benchSchema(true, size), nil, "a", "r")
			cl := c.client("")
			keys := allKeys(&c.schema)
			var rows client.Rows
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := cl.Read(c.ctx, 1, 1, keys, &rows); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A read must cost the same few allocations whatever the number of rows.
func TestReadAllocatesPerMessageNotPerRow(t *testing.T) {
	if raced.Detector {
		t.Skip("the race detector empties pools at random: run it without -race")
	}
	allocs := func(bytes int) float64 {
		c := newCluster(t, benchSchema(true, bytes), nil, "a", "r")
		cl := c.client("")
		keys := allKeys(&c.schema)
		var rows client.Rows
		return testing.AllocsPerRun(50, func() {
			if err := cl.Read(c.ctx, 1, 1, keys, &rows); err != nil {
				t.Fatal(err)
			}
		})
	}
	few, many := allocs(8<<10), allocs(256<<10) // 64 and 2048 rows
	if many > few+40 {
		t.Errorf("%g allocations for 64 rows and %g for 2048", few, many)
	}
}
