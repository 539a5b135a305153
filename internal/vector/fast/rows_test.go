package fast

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// sparse names n rows of a matrix, some more than once, with factors.
func sparse(r *rand.Rand, rows, n int) ([]uint32, []float32) {
	index, factors := make([]uint32, n), make([]float32, n)
	for k := range index {
		index[k], factors[k] = r.Uint32N(uint32(rows)), float32(r.NormFloat64())
	}
	return index, factors
}

func normal(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func TestSumRowsAndAddToRows(t *testing.T) {
	const rows = 9
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(4, 1))
		for _, width := range []int{0, 16, 32, 48, 64, 80, 128, 144, 208} {
			for n := range 14 {
				what := fmt.Sprintf("width %d, %d rows", width, n)
				index, factors := sparse(r, rows, n)
				// Nothing before and behind may change.
				matrix, sum, x := normal(r, rows*width+32), normal(r, width+32), normal(r, width)
				wantSum, wantMatrix := append([]float32(nil), sum...), append([]float32(nil), matrix...)
				for k, row := range index {
					for j := range width {
						wantSum[16+j] += factors[k] * matrix[16+int(row)*width+j]
					}
				}
				SumRows(sum[16:16+width], matrix[16:], index, factors)
				near(t, what+": sum", sum, wantSum)
				for k, row := range index {
					for j := range width {
						wantMatrix[16+int(row)*width+j] += factors[k] * x[j]
					}
				}
				AddToRows(matrix[16:], index, factors, x)
				near(t, what+": matrix", matrix, wantMatrix)
			}
		}
	})
}

// An image of MNIST times the weights of ten classes, and of a hidden layer.
func BenchmarkRows(b *testing.B) {
	const rows, present = 784, 150
	for _, width := range []int{16, 128} {
		r := rand.New(rand.NewPCG(1, 1))
		index := make([]uint32, present)
		for k := range index {
			index[k] = uint32(k * rows / present)
		}
		matrix, x, factors := normal(r, rows*width), normal(r, width), make([]float32, present)
		b.Run(fmt.Sprintf("sum/%d", width), func(b *testing.B) {
			for b.Loop() {
				SumRows(x, matrix, index, factors)
			}
		})
		b.Run(fmt.Sprintf("add/%d", width), func(b *testing.B) {
			for b.Loop() {
				AddToRows(matrix, index, factors, x)
			}
		})
	}
}
