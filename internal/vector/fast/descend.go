package fast

import "unsafe"

// Cell is one known entry of a matrix: its row, its column and its value.
type Cell struct {
	Row, Column uint32
	Value       float32
}

// Align is the divisor of Factors' strides: a cache line of numbers, so that rows have no remainder.
const Align = 16

// Stride returns the least stride for vectors of a rank.
func Stride(rank int) int { return (rank + Align - 1) / Align * Align }

// Factors are two sets of vectors whose scalar products, plus a bias for each, approximate a matrix:
//
//	value(r, c) = RowBias[r] + ColumnBias[c] + Rows[r] . Columns[c]
//
// A vector has Stride numbers; those beyond the rank must be 0, and stay so.
type Factors struct {
	Rows, Columns        []float32
	RowBias, ColumnBias  []float32
	Stride               int
	Step, Keep, BiasKeep float32 // keep: 1 - step * penalty, what the penalty leaves of a number
}

// Descend takes one step of stochastic gradient descent per cell, in order, and returns the sum of the squared errors, each before its own
// step. With e the error of a cell, p and q its vectors and b its biases:
//
//	p, q = Keep*p + Step*e*q, Keep*q + Step*e*p        b = BiasKeep*b + Step*e
//
// Cells must lie within Factors, which is not checked.
func (f *Factors) Descend(cells []Cell) float64 {
	if len(cells) == 0 { // the assembly expects at least one cell
		return 0
	}
	return descend(f, unsafe.SliceData(cells), len(cells))
}

//lint:ignore U1000 the assembly jumps to it
func descendGo(f *Factors, first *Cell, n int) (squares float64) {
	for _, cell := range unsafe.Slice(first, n) {
		r, c := int(cell.Row), int(cell.Column)
		p, q := f.Rows[r*f.Stride:(r+1)*f.Stride], f.Columns[c*f.Stride:(c+1)*f.Stride]
		e := cell.Value - (f.RowBias[r] + f.ColumnBias[c] + dotGo(&p[0], &q[0], len(p)))
		squares += float64(e) * float64(e)
		pull := f.Step * e
		for k, old := range p {
			p[k] = f.Keep*old + pull*q[k]
			q[k] = f.Keep*q[k] + pull*old
		}
		f.RowBias[r] = f.BiasKeep*f.RowBias[r] + pull
		f.ColumnBias[c] = f.BiasKeep*f.ColumnBias[c] + pull
	}
	return squares
}
