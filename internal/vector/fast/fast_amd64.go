package fast

import "golang.org/x/sys/cpu"

// level is read by the assembly.
var level int64 = detect()

func detect() int64 {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL && cpu.X86.HasBMI2 && cpu.X86.HasFMA:
		return avx512
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return avx2
	}
	return plain
}

//go:noescape
func dot(a, b *float32, n int) float32

//go:noescape
func axpy(a float32, x, y *float32, n int)

//go:noescape
func descend(f *Factors, cells *Cell, n int) float64

//go:noescape
func sumRows(sum *float32, width int, matrix *float32, rows *uint32, factors *float32, n int)

//go:noescape
func addToRows(matrix *float32, rows *uint32, factors *float32, n int, x *float32, width int)

//go:noescape
func descendScattered(f *Scattered, cells *Cell, n int) float64
