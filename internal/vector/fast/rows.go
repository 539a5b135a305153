package fast

import "unsafe"

// SumRows adds the named rows of a matrix to sum, each times its factor:
//
//	sum += factors[k] * row rows[k] of matrix, over all k
//
// It is a sparse vector times a dense matrix. A row is as wide as sum, whose length is a multiple of Align. Rows must lie within the
// matrix, which is not checked; there must be at least as many factors as rows.
func SumRows(sum, matrix []float32, rows []uint32, factors []float32) {
	factors = factors[:len(rows)]
	sumRows(unsafe.SliceData(sum), len(sum), unsafe.SliceData(matrix), unsafe.SliceData(rows), unsafe.SliceData(factors), len(rows))
}

// AddToRows adds x, times one factor each, to the named rows of a matrix:
//
//	row rows[k] of matrix += factors[k] * x, for all k
//
// It is the outer product of a sparse and a dense vector, under the same rules as SumRows.
func AddToRows(matrix []float32, rows []uint32, factors, x []float32) {
	factors = factors[:len(rows)]
	addToRows(unsafe.SliceData(matrix), unsafe.SliceData(rows), unsafe.SliceData(factors), len(rows), unsafe.SliceData(x), len(x))
}

//lint:ignore U1000 the assembly jumps to it
func sumRowsGo(sum *float32, width int, matrix *float32, rows *uint32, factors *float32, n int) {
	s, f := unsafe.Slice(sum, width), unsafe.Slice(factors, n)
	for k, row := range unsafe.Slice(rows, n) {
		w := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(matrix), 4*int(row)*width)), width)
		for j, v := range w {
			s[j] += f[k] * v
		}
	}
}

//lint:ignore U1000 the assembly jumps to it
func addToRowsGo(matrix *float32, rows *uint32, factors *float32, n int, x *float32, width int) {
	from, f := unsafe.Slice(x, width), unsafe.Slice(factors, n)
	for k, row := range unsafe.Slice(rows, n) {
		w := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(matrix), 4*int(row)*width)), width)
		for j, v := range from {
			w[j] += f[k] * v
		}
	}
}
