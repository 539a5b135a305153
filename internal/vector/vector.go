// Package vector has the arithmetic for inner loops, with bit-for-bit the same results on every processor, on which the deterministic mode
// of the parameter server relies:
//
//   - Every product is converted before it is added, which forbids the compiler to fuse the two operations into
//     one with a single rounding (Go specification, "Floating-point operators"), as it would on arm64 and on
//     amd64 with GOAMD64=v3.
//   - Sums have one shape: eight running sums, element k going to sum k mod 8, then a tree. That is what
//     eight-lane vector registers do: on amd64 with AVX2 the inner loops are assembly, which gives the same bits as
//     the Go twins that other processors run.
//   - The exponential is computed here, since the standard library's has assembly on some processors only.
//
// The package does not know what its numbers mean.
package vector

import (
	"math"
	"unsafe"
)

// lanes is the number of running sums.
const lanes = 8

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

// Blend sets p to pKeep*p + pPull*q and q to qKeep*q + qPull*p, both from the old values; q is at least as long as p.
func Blend(p, q []float32, pKeep, pPull, qKeep, qPull float32) {
	q = q[:len(p)]
	blend(unsafe.SliceData(p), unsafe.SliceData(q), len(p), pKeep, pPull, qKeep, qPull)
}

// Nesterov steps w against the mean gradient g = sum/weight with Nesterov's momentum, in float64: v = momentum*v + g, then
// w = w - rate*(g + momentum*v). v and sum are at least as long as w.
func Nesterov(w, v, sum []float32, weight, momentum, rate float64) {
	v, sum = v[:len(w)], sum[:len(w)]
	nesterov(unsafe.SliceData(w), unsafe.SliceData(v), unsafe.SliceData(sum), len(w), weight, momentum, rate)
}

// Finite reports whether no element is infinite or NaN.
func Finite(x []float32) bool { return finite(unsafe.SliceData(x), len(x)) }

// dotGo and its like run on processors without AVX2, and define the result.
//
//lint:ignore U1000 the assembly jumps to it
func dotGo(first, second *float32, n int) float32 {
	a, b := unsafe.Slice(first, n), unsafe.Slice(second, n)
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for len(a) >= lanes && len(b) >= lanes {
		s0 += float32(a[0] * b[0])
		s1 += float32(a[1] * b[1])
		s2 += float32(a[2] * b[2])
		s3 += float32(a[3] * b[3])
		s4 += float32(a[4] * b[4])
		s5 += float32(a[5] * b[5])
		s6 += float32(a[6] * b[6])
		s7 += float32(a[7] * b[7])
		a, b = a[lanes:], b[lanes:]
	}
	if len(a) > 0 {
		var tail [lanes]float32 // the missing elements are zeros
		for k := range a {
			tail[k] = float32(a[k] * b[k])
		}
		s0, s1, s2, s3 = s0+tail[0], s1+tail[1], s2+tail[2], s3+tail[3]
		s4, s5, s6, s7 = s4+tail[4], s5+tail[5], s6+tail[6], s7+tail[7]
	}
	return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
}

//lint:ignore U1000 the assembly jumps to it
func axpyGo(a float32, from, to *float32, n int) {
	x, y := unsafe.Slice(from, n), unsafe.Slice(to, n)
	for len(x) >= lanes && len(y) >= lanes {
		y[0] += float32(a * x[0])
		y[1] += float32(a * x[1])
		y[2] += float32(a * x[2])
		y[3] += float32(a * x[3])
		y[4] += float32(a * x[4])
		y[5] += float32(a * x[5])
		y[6] += float32(a * x[6])
		y[7] += float32(a * x[7])
		x, y = x[lanes:], y[lanes:]
	}
	for k, v := range x {
		y[k] += float32(a * v)
	}
}

//lint:ignore U1000 the assembly jumps to it
func blendGo(first, second *float32, n int, pKeep, pPull, qKeep, qPull float32) {
	p, q := unsafe.Slice(first, n), unsafe.Slice(second, n)
	for k, old := range p {
		p[k] = float32(pKeep*old) + float32(pPull*q[k])
		q[k] = float32(qKeep*q[k]) + float32(qPull*old)
	}
}

//lint:ignore U1000 the assembly jumps to it
func nesterovGo(values, velocities, sums *float32, n int, weight, momentum, rate float64) {
	w, v, sum := unsafe.Slice(values, n), unsafe.Slice(velocities, n), unsafe.Slice(sums, n)
	for k, s := range sum {
		g := float64(s) / weight
		moved := float64(momentum*float64(v[k])) + g
		v[k] = float32(moved)
		w[k] = float32(float64(w[k]) - float64(rate*(g+float64(momentum*moved))))
	}
}

//lint:ignore U1000 the assembly jumps to it
func finiteGo(x *float32, n int) bool {
	for _, v := range unsafe.Slice(x, n) {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// SparseDot returns the scalar product of a sparse vector, values at places, with a dense one. Four running sums,
// element k going to sum k mod 4, then a tree.
func SparseDot(places []uint32, values, dense []float32) float32 {
	values = values[:len(places)]
	var s0, s1, s2, s3 float32
	for len(places) >= 4 && len(values) >= 4 {
		s0 += float32(values[0] * dense[places[0]])
		s1 += float32(values[1] * dense[places[1]])
		s2 += float32(values[2] * dense[places[2]])
		s3 += float32(values[3] * dense[places[3]])
		places, values = places[4:], values[4:]
	}
	var tail [4]float32
	for k, p := range places {
		tail[k&3] = float32(values[k] * dense[p])
	}
	return ((s0 + tail[0]) + (s2 + tail[2])) + ((s1 + tail[1]) + (s3 + tail[3]))
}

// SparseAxpy adds a times a sparse vector to a dense one.
func SparseAxpy(a float32, places []uint32, values, dense []float32) {
	values = values[:len(places)]
	for k, p := range places {
		dense[p] += float32(a * values[k])
	}
}

// inverseFactorials are the Taylor coefficients of the exponential, for Horner's rule; for arguments up to half of ln 2 the first omitted
// term is below 1e-15.
var inverseFactorials = [...]float64{1, 1, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,
	1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800}

// Exp returns e to the power of x, for x up to 700, to about 1e-14; far below zero it returns zero.
func Exp(x float64) float64 {
	const (
		log2e  = 1.44269504088896338700
		ln2Hi  = 6.93147180369123816490e-01 // the upper bits of ln 2, so that k*ln2Hi is exact
		ln2Low = 1.90821492927058770002e-10
	)
	if x < -700 {
		return 0
	}
	if x > 700 {
		x = 700 // limits a probability's numerator; never infinite
	}
	k := math.Floor(float64(x*log2e) + 0.5)
	r := (x - float64(k*ln2Hi)) - float64(k*ln2Low) // within half of ln 2
	sum := inverseFactorials[len(inverseFactorials)-1]
	for n := len(inverseFactorials) - 2; n >= 0; n-- {
		sum = inverseFactorials[n] + float64(sum*r)
	}
	return sum * math.Float64frombits(uint64(int64(k)+1023)<<52) // a power of two: exact
}

// Softmax turns scores into probabilities, in place.
func Softmax(scores []float32) {
	top := scores[0]
	for _, s := range scores {
		top = max(top, s)
	}
	var total float64
	for i, s := range scores {
		e := float32(Exp(float64(s - top)))
		scores[i] = e
		total += float64(e)
	}
	for i, e := range scores {
		scores[i] = float32(float64(e) / total)
	}
}
