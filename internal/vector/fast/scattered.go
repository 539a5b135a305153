package fast

import "unsafe"

// Scattered are two sets of vectors like Factors, but stored separately, each followed by its bias and by zeros up to a multiple of Align,
// which stay 0. Each column has rates of its own.
type Scattered struct {
	Rows, Columns [][]float32
	Rank          int
	RowRates      Rates
	ColumnRates   []Rates // by column
}

// Rates are the step of a vector, and what a step keeps of its numbers and of its bias: 1 - step * penalty.
type Rates struct{ Step, Keep, BiasKeep float32 }

// Width returns how many numbers a vector of a given rank needs, including its bias and the zeros.
func Width(rank int) int { return Stride(rank + 1) }

// Descend takes one step of stochastic gradient descent per cell, in order, and returns the sum of the squared errors, each before its own
// step. With e the error of a cell, p and q its vectors and b and d their biases:
//
//	p, q = Keep*p + Step*e*q, ColumnKeep*q + ColumnStep*e*p        b, d = BiasKeep*b + Step*e, ColumnBiasKeep*d + ColumnStep*e
//
// Cells must lie within the lists and vectors have their width, which is not checked.
func (f *Scattered) Descend(cells []Cell) float64 {
	if len(cells) == 0 { // the assembly expects at least one cell
		return 0
	}
	return descendScattered(f, unsafe.SliceData(cells), len(cells))
}

//lint:ignore U1000 the assembly jumps to it
func descendScatteredGo(f *Scattered, first *Cell, n int) (squares float64) {
	for _, cell := range unsafe.Slice(first, n) {
		p, q, rates := f.Rows[cell.Row], f.Columns[cell.Column], f.ColumnRates[cell.Column]
		e := cell.Value - (p[f.Rank] + q[f.Rank] + dotGo(&p[0], &q[0], f.Rank))
		squares += float64(e) * float64(e)
		pullRow, pullColumn := f.RowRates.Step*e, rates.Step*e
		for k, old := range p[:f.Rank] {
			p[k] = f.RowRates.Keep*old + pullRow*q[k]
			q[k] = rates.Keep*q[k] + pullColumn*old
		}
		p[f.Rank] = f.RowRates.BiasKeep*p[f.Rank] + pullRow
		q[f.Rank] = rates.BiasKeep*q[f.Rank] + pullColumn
	}
	return squares
}
