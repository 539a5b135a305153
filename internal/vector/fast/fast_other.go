//go:build !amd64

package fast

const level = plain

func dot(a, b *float32, n int) float32 { return dotGo(a, b, n) }

func axpy(a float32, x, y *float32, n int) { axpyGo(a, x, y, n) }

func descend(f *Factors, cells *Cell, n int) float64 { return descendGo(f, cells, n) }

func sumRows(sum *float32, width int, matrix *float32, rows *uint32, factors *float32, n int) {
	sumRowsGo(sum, width, matrix, rows, factors, n)
}

func addToRows(matrix *float32, rows *uint32, factors *float32, n int, x *float32, width int) {
	addToRowsGo(matrix, rows, factors, n, x, width)
}

func descendScattered(f *Scattered, cells *Cell, n int) float64 {
	return descendScatteredGo(f, cells, n)
}
