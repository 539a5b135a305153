package ps

import (
	"fmt"
	"testing"
)

// benchShapes are tables of one partition: narrow rows, many touched, and wide ones.
var benchShapes = []struct {
	name       string
	rows, cols int
}{
	{"1M rows x 10", 1_000_000, 10},
	{"4096 rows of 1 KiB", 4096, 256},
	{"64 rows of 64 KiB", 64, 16 << 10},
}

func benchSchema(rows, cols int, deterministic bool) *Schema {
	return &Schema{Tables: []Table{{Name: "t", Rows: uint64(rows), Cols: cols}}, Partitions: 1, Splits: 1, Deterministic: deterministic}
}

// benchWork returns a contribution to clock that touches every row.
func benchWork(s *Schema, clock Clock) *Contribution {
	c := &Contribution{Incarnation: 1, Sequence: uint64(clock), Clock: clock, Splits: []Split{0}}
	t := s.Tables[0]
	for row := range RowID(t.Rows) {
		c.Updates.Keys = append(c.Updates.Keys, Key{Row: row * 7919 % RowID(t.Rows)}) // in no order
	}
	if n := int(t.Rows) * t.Cols; s.Deterministic {
		c.Updates.Fixed = make([]int64, n)
	} else {
		c.Updates.Float = make([]float32, n)
	}
	return c
}

func benchFold(b *testing.B, s *Shard, c *Contribution) {
	if _, err := s.Stage(c); err != nil {
		b.Fatal(err)
	}
	if folded, err := s.Commit(c.Incarnation, c.Sequence); err != nil || !folded {
		b.Fatal(folded, err)
	}
	c.Sequence++
	c.Clock++
}

func eachShape(b *testing.B, do func(b *testing.B, s *Schema)) {
	for _, shape := range benchShapes {
		for _, deterministic := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/deterministic=%v", shape.name, deterministic), func(b *testing.B) {
				b.SetBytes(int64(4 * shape.rows * shape.cols))
				b.ReportAllocs()
				do(b, benchSchema(shape.rows, shape.cols, deterministic))
			})
		}
	}
}

// BenchmarkRead reads every touched row once.
func BenchmarkRead(b *testing.B) {
	eachShape(b, func(b *testing.B, schema *Schema) {
		s, c := NewShard(schema, 0), benchWork(schema, 1)
		benchFold(b, s, c)
		row := make([]float32, schema.Tables[0].Cols)
		for b.Loop() {
			for _, k := range c.Updates.Keys {
				s.Read(k, row)
			}
		}
	})
}

// BenchmarkFold stages, commits and folds a clock that touches every row, after the layer has stored them.
func BenchmarkFold(b *testing.B) {
	eachShape(b, func(b *testing.B, schema *Schema) {
		s, c := NewShard(schema, 0), benchWork(schema, 1)
		benchFold(b, s, c)
		for b.Loop() {
			benchFold(b, s, c)
		}
	})
}

// BenchmarkCut passes, delivers and commits a cut of every row, on a shard and a backup, with a clock in between.
func BenchmarkCut(b *testing.B) {
	eachShape(b, func(b *testing.B, schema *Schema) {
		s, backup, c := NewShard(schema, 0), NewBackup(schema, 0), benchWork(schema, 1)
		benchFold(b, s, c)
		for b.Loop() {
			cut := s.Folded()
			if err := s.NameCut(cut); err != nil {
				b.Fatal(err)
			}
			benchFold(b, s, c)
			d, err := s.Deliver(cut, false)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := backup.Deliver(&d); err != nil {
				b.Fatal(err)
			}
			if err := backup.Commit(cut); err != nil {
				b.Fatal(err)
			}
			if err := s.CommitCut(cut); err != nil {
				b.Fatal(err)
			}
		}
	})
}
