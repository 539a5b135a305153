// Package cells shows rows of 32-bit cells as what they hold. A row is a []float32 wherever it is stored, copied or
// sent; the cells of some rows are the bits of integers. It is the one place outside the wire that needs unsafe for
// that, and knows nothing else.
package cells

import "unsafe"

// Ints returns cells as the integers whose bits they are. It is the same memory.
func Ints(cells []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(cells))), len(cells))
}

// Of returns the cells that hold integers. It is the same memory.
func Of(ints []int32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(ints))), len(ints))
}
