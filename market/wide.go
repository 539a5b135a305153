package market

import (
	"math"
	"math/bits"
)

// wide is a whole number of 128 bits, in two's complement: products of times need that many.
type wide struct{ hi, lo uint64 }

// product multiplies numbers that are not negative.
func product(a, b int64) (w wide) {
	w.hi, w.lo = bits.Mul64(uint64(a), uint64(b))
	return w
}

func (w wide) plus(o wide) (sum wide) {
	var carry uint64
	sum.lo, carry = bits.Add64(w.lo, o.lo, 0)
	sum.hi, _ = bits.Add64(w.hi, o.hi, carry)
	return sum
}

func (w wide) minus(o wide) (difference wide) {
	var borrow uint64
	difference.lo, borrow = bits.Sub64(w.lo, o.lo, 0)
	difference.hi, _ = bits.Sub64(w.hi, o.hi, borrow)
	return difference
}

// float returns the nearest number but for rounding; w must not be negative.
func (w wide) float() float64 { return math.Ldexp(float64(w.hi), 64) + float64(w.lo) }
