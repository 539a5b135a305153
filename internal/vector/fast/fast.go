// Package fast does the arithmetic of package vector as fast as this processor can: multiplications and additions are fused, sums have as
// many running sums as there are registers, and the instruction set is chosen when the program starts (AVX-512, AVX2 with FMA, or plain
// Go). The last bits of a result therefore depend on the processor. Code that must give the same results everywhere uses package vector.
//
// The assembly needs only plain `go build`: no build tag and no experiment. Every function has a twin in Go, with which tests compare it
// and which processors without these instructions run.
//
// The package does not know what its numbers mean.
package fast

import "unsafe"

// Dot returns the scalar product of two vectors; b is at least as long as a.
func Dot(a, b []float32) float32 {
	b = b[:len(a)]
	return dot(unsafe.SliceData(a), unsafe.SliceData(b), len(a))
}

// Axpy adds a times x to y, which is at least as long as x.
func Axpy(a float32, x, y []float32) {
	y = y[:len(x)]
	axpy(a, unsafe.SliceData(x), unsafe.SliceData(y), len(x))
}

// Instruction sets for which the functions are written, the simplest first.
const (
	plain = iota
	avx2
	avx512
)

// Instructions names the instruction set used on this processor, for benchmark reports.
func Instructions() string {
	return [...]string{plain: "plain Go", avx2: "AVX2", avx512: "AVX-512"}[level]
}

// dotGo and its like are what a processor without vector instructions runs.
//
//lint:ignore U1000 the assembly jumps to it
func dotGo(first, second *float32, n int) float32 {
	a, b := unsafe.Slice(first, n), unsafe.Slice(second, n)
	var s0, s1, s2, s3 float32
	for len(a) >= 4 && len(b) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for k := range a {
		s0 += a[k] * b[k]
	}
	return (s0 + s2) + (s1 + s3)
}

//lint:ignore U1000 the assembly jumps to it
func axpyGo(a float32, from, to *float32, n int) {
	x, y := unsafe.Slice(from, n), unsafe.Slice(to, n)
	for k, v := range x {
		y[k] += a * v
	}
}
