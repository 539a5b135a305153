package fast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func randomScattered(r *rand.Rand, rows, columns, rank int) *Scattered {
	f := &Scattered{Rank: rank, RowRates: Rates{Step: 0.05, Keep: 0.99, BiasKeep: 0.98}}
	vectors := func(n int) [][]float32 {
		list := make([][]float32, n)
		for i := range list {
			list[i] = make([]float32, Width(rank))
			for k := range list[i][:rank+1] {
				list[i][k] = float32(r.NormFloat64()) / float32(math.Sqrt(float64(rank)))
			}
		}
		return list
	}
	f.Rows, f.Columns = vectors(rows), vectors(columns)
	for range columns {
		f.ColumnRates = append(f.ColumnRates, Rates{Step: 0.1 * r.Float32(), Keep: 1 - 0.1*r.Float32(), BiasKeep: 1 - 0.1*r.Float32()})
	}
	return f
}

// slowScattered is Descend in double precision, straight from its comment.
func slowScattered(f *Scattered, cells []Cell) (squares float64) {
	for _, cell := range cells {
		p, q, rates := f.Rows[cell.Row], f.Columns[cell.Column], f.ColumnRates[cell.Column]
		e := float64(cell.Value) - float64(p[f.Rank]) - float64(q[f.Rank])
		for k := range f.Rank {
			e -= float64(p[k]) * float64(q[k])
		}
		squares += e * e
		for k := range f.Rank + 1 {
			old, other, keep, keepColumn := float64(p[k]), float64(q[k]), f.RowRates.Keep, rates.Keep
			drawRow, drawColumn := other, old
			if k == f.Rank {
				drawRow, drawColumn, keep, keepColumn = 1, 1, f.RowRates.BiasKeep, rates.BiasKeep
			}
			p[k] = float32(float64(keep)*old + float64(f.RowRates.Step)*e*drawRow)
			q[k] = float32(float64(keepColumn)*other + float64(rates.Step)*e*drawColumn)
		}
	}
	return squares
}

func TestDescendScattered(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for rank := 1; rank < 200; rank++ {
			for _, n := range []int{1, 3, 5, 40} {
				got := randomScattered(rand.New(rand.NewPCG(uint64(rank), uint64(n))), 7, 9, rank)
				want := randomScattered(rand.New(rand.NewPCG(uint64(rank), uint64(n))), 7, 9, rank)
				cells := randomCells(rand.New(rand.NewPCG(uint64(n), 3)), 7, 9, n)
				squares, expected := got.Descend(cells), slowScattered(want, cells)
				if math.Abs(squares-expected) > 1e-4*(1+expected) {
					t.Fatalf("rank %d, %d cells: squares %v, want %v", rank, n, squares, expected)
				}
				near(t, fmt.Sprintf("rank %d, %d cells: rows", rank, n), slices.Concat(got.Rows...), slices.Concat(want.Rows...))
				near(t, fmt.Sprintf("rank %d, %d cells: columns", rank, n), slices.Concat(got.Columns...), slices.Concat(want.Columns...))
			}
		}
	})
}

// Vectors that fit in the second-level cache.
func BenchmarkDescendScattered(b *testing.B) {
	for _, rank := range []int{32, 100, 1000} {
		b.Run(fmt.Sprint(rank), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			n := 1 << 16 / rank
			f := randomScattered(r, n, n, rank)
			for i := range f.ColumnRates {
				f.ColumnRates[i] = Rates{Step: 1e-4, Keep: 1, BiasKeep: 1}
			}
			f.RowRates = f.ColumnRates[0]
			cells := randomCells(r, n, n, 10_000)
			for b.Loop() {
				f.Descend(cells)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(cells)), "ns/cell")
		})
	}
}
