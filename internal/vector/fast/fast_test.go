package fast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// eachLevel runs a test with every instruction set that this processor has.
func eachLevel(t *testing.T, do func(t *testing.T)) {
	for l := int64(plain); l <= detected; l++ {
		restore := useLevel(l)
		t.Run(Instructions(), do)
		restore()
	}
}

// vectors returns two vectors of n numbers that begin at an odd offset and are followed by numbers that must not be touched.
func vectors(r *rand.Rand, n int) (a, b []float32, whole []float32) {
	random := func() []float32 {
		v := make([]float32, n+41)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	x, y := random(), random()
	return x[1 : n+1], y[3 : n+3], y
}

func TestDot(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 1))
		for n := range 300 {
			a, b, _ := vectors(r, n)
			var want, size float64
			for k := range a {
				want += float64(a[k]) * float64(b[k])
				size += math.Abs(float64(a[k]) * float64(b[k]))
			}
			if got := Dot(a, b); math.Abs(float64(got)-want) > 1e-6*size {
				t.Fatalf("%d elements: %v, want %v", n, got, want)
			}
		}
	})
}

func TestAxpy(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(2, 1))
		for n := range 300 {
			x, y, whole := vectors(r, n)
			before := append([]float32(nil), whole...)
			Axpy(0.3, x, y)
			for i := range whole {
				want := float64(before[i])
				if k := i - 3; k >= 0 && k < n {
					want += float64(float32(0.3)) * float64(x[k])
				}
				if math.Abs(float64(whole[i])-want) > 1e-6*(1+math.Abs(want)) {
					t.Fatalf("%d elements: place %d became %v, want %v", n, i-3, whole[i], want)
				}
			}
		}
	})
}

func randomFactors(r *rand.Rand, rows, columns, rank int) *Factors {
	f := &Factors{Stride: Stride(rank), Step: 0.05, Keep: 0.99, BiasKeep: 0.98}
	fill := func(n int) []float32 {
		v := make([]float32, n*f.Stride)
		for i := range v {
			if i%f.Stride < rank {
				v[i] = float32(r.NormFloat64()) / float32(math.Sqrt(float64(rank)))
			}
		}
		return v
	}
	f.Rows, f.Columns = fill(rows), fill(columns)
	f.RowBias, f.ColumnBias = make([]float32, rows), make([]float32, columns)
	for i := range f.RowBias {
		f.RowBias[i] = float32(r.NormFloat64())
	}
	return f
}

func randomCells(r *rand.Rand, rows, columns, n int) []Cell {
	cells := make([]Cell, n)
	for i := range cells {
		cells[i] = Cell{r.Uint32N(uint32(rows)), r.Uint32N(uint32(columns)), float32(r.NormFloat64())}
	}
	return cells
}

// slowDescend is Descend in double precision, straight from its comment.
func slowDescend(f *Factors, cells []Cell) (squares float64) {
	for _, cell := range cells {
		r, c := int(cell.Row), int(cell.Column)
		p, q := f.Rows[r*f.Stride:(r+1)*f.Stride], f.Columns[c*f.Stride:(c+1)*f.Stride]
		e := float64(cell.Value) - float64(f.RowBias[r]) - float64(f.ColumnBias[c])
		for k := range p {
			e -= float64(p[k]) * float64(q[k])
		}
		squares += e * e
		keep, pull := float64(f.Keep), float64(f.Step)*e
		for k := range p {
			old, other := float64(p[k]), float64(q[k])
			p[k], q[k] = float32(keep*old+pull*other), float32(keep*other+pull*old)
		}
		f.RowBias[r] = float32(float64(f.BiasKeep)*float64(f.RowBias[r]) + pull)
		f.ColumnBias[c] = float32(float64(f.BiasKeep)*float64(f.ColumnBias[c]) + pull)
	}
	return squares
}

func TestDescend(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for rank := 1; rank < 200; rank++ {
			for _, n := range []int{1, 3, 5, 40} {
				seed := rand.NewPCG(uint64(rank), uint64(n))
				f, want := randomFactors(rand.New(seed), 7, 9, rank), randomFactors(rand.New(rand.NewPCG(uint64(rank), uint64(n))), 7, 9, rank)
				cells := randomCells(rand.New(rand.NewPCG(uint64(n), 3)), 7, 9, n)
				got, expected := f.Descend(cells), slowDescend(want, cells)
				if math.Abs(got-expected) > 1e-4*(1+expected) {
					t.Fatalf("rank %d, %d cells: squares %v, want %v", rank, n, got, expected)
				}
				near(t, fmt.Sprintf("rank %d, %d cells: rows", rank, n), f.Rows, want.Rows)
				near(t, fmt.Sprintf("rank %d, %d cells: columns", rank, n), f.Columns, want.Columns)
				near(t, fmt.Sprintf("rank %d, %d cells: row biases", rank, n), f.RowBias, want.RowBias)
				near(t, fmt.Sprintf("rank %d, %d cells: column biases", rank, n), f.ColumnBias, want.ColumnBias)
			}
		}
	})
}

// Nothing is read or written if there is nothing to do: the addresses of empty slices may be anywhere.
func TestNothingToDo(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		f := randomFactors(rand.New(rand.NewPCG(1, 1)), 2, 2, 40)
		cells := []Cell{{Row: math.MaxUint32, Column: math.MaxUint32}}[:0]
		scattered := &Scattered{Rows: [][]float32{make([]float32, 16)}, Columns: [][]float32{make([]float32, 16)}, ColumnRates: make([]Rates, 1), Rank: 3}
		rows, factors := []uint32{math.MaxUint32}[:0], []float32{1}[:0]
		sum := make([]float32, Align)
		if got := f.Descend(cells) + f.Descend(nil) + scattered.Descend(cells) + scattered.Descend(nil); got != 0 {
			t.Errorf("no cells: squares %v", got)
		}
		SumRows(sum, sum, rows, factors)
		AddToRows(sum, rows, factors, sum)
		SumRows(nil, nil, []uint32{math.MaxUint32}, []float32{1})
		AddToRows(nil, []uint32{math.MaxUint32}, []float32{1}, nil)
		for i, v := range sum {
			if v != 0 {
				t.Errorf("no rows: place %d became %v", i, v)
			}
		}
	})
}

func near(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-4*(1+math.Abs(float64(want[i]))) {
			t.Fatalf("%s: place %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

var sink float32

// calls are made in a row, so that the benchmark's own overhead does not count.
const calls = 1000

func perCall(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*calls), "ns/call")
}

func BenchmarkDot(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x, y, _ := vectors(rand.New(rand.NewPCG(1, 1)), n)
			for b.Loop() {
				for range calls {
					sink = Dot(x, y)
				}
			}
			perCall(b)
		})
	}
}

func BenchmarkAxpy(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x, y, _ := vectors(rand.New(rand.NewPCG(1, 1)), n)
			for b.Loop() {
				for range calls {
					Axpy(1e-9, x, y)
				}
			}
			perCall(b)
		})
	}
}

// Vectors that fit in the second-level cache.
func BenchmarkDescend(b *testing.B) {
	for _, rank := range []int{32, 100, 1000} {
		b.Run(fmt.Sprint(rank), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			n := 1 << 16 / rank
			f := randomFactors(r, n, n, rank)
			f.Step = 1e-4
			cells := randomCells(r, n, n, 10_000)
			for b.Loop() {
				f.Descend(cells)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(cells)), "ns/cell")
		})
	}
}
