package market

import (
	"math"
	"math/bits"
)

// int128 is a two's complement integer: products of times need 128 bits.
type int128 struct{ hi, lo uint64 }

// product multiplies nonnegative numbers.
func product(a, b int64) (w int128) {
	w.hi, w.lo = bits.Mul64(uint64(a), uint64(b))
	return w
}

func (w int128) plus(o int128) (sum int128) {
	var carry uint64
	sum.lo, carry = bits.Add64(w.lo, o.lo, 0)
	sum.hi, _ = bits.Add64(w.hi, o.hi, carry)
	return sum
}

func (w int128) minus(o int128) (difference int128) {
	var borrow uint64
	difference.lo, borrow = bits.Sub64(w.lo, o.lo, 0)
	difference.hi, _ = bits.Sub64(w.hi, o.hi, borrow)
	return difference
}

// float returns the nearest number apart from rounding; w must not be negative.
func (w int128) float() float64 { return math.Ldexp(float64(w.hi), 64) + float64(w.lo) }
