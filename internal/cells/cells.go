// Package cells reinterprets rows of 32-bit cells. A row is a []float32 wherever it is stored, copied or sent; the cells of some rows are
// the bits of integers. It is the only package outside the wire that needs unsafe for that, and does nothing else.
package cells

import "unsafe"

// Ints returns cells as the integers whose bits they are. It shares the memory.
func Ints(cells []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(cells))), len(cells))
}

// Of returns the cells that hold integers. It shares the memory.
func Of(ints []int32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(ints))), len(ints))
}
