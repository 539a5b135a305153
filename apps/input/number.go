package input

import (
	"math"
	"strconv"
)

// Powers of ten. A number of this many digits is below 1e15, which float64 represents exactly.
var powers = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14}

// decimal reads digits with at most one point and an optional sign, as nearly all numbers in files are. Anything else, and numbers that are
// not an exact float64 times a power of ten, is left to strconv.
func decimal(text []byte) (whole int64, places int, ok bool) {
	rest := text
	if len(rest) > 0 && (rest[0] == '-' || rest[0] == '+') {
		rest = rest[1:]
	}
	if len(rest) == 0 || len(rest) > len(powers) {
		return 0, 0, false
	}
	point := -1
	for i, c := range rest {
		if d := c - '0'; d <= 9 {
			whole = 10*whole + int64(d)
		} else if c == '.' && point < 0 && len(rest) > 1 {
			point = i
		} else {
			return 0, 0, false
		}
	}
	if point >= 0 {
		places = len(rest) - point - 1
	}
	return whole, places, true
}

// parseFloat64 is strconv.ParseFloat of 64 bits.
func parseFloat64(text []byte) (float64, error) {
	whole, places, ok := decimal(text)
	if !ok {
		return strconv.ParseFloat(string(text), 64)
	}
	x := float64(whole) / powers[places] // both exact, so this is rounded once
	if text[0] == '-' {
		x = -x
	}
	return x, nil
}

// parseFloat32 is strconv.ParseFloat of 32 bits.
func parseFloat32(text []byte) (float32, error) {
	whole, places, ok := decimal(text)
	x := float64(whole)
	if ok && places > 0 {
		x /= powers[places]
		// Rounding to 53 bits and then to 24 is correct unless the first result looks like the midpoint of two.
		if middle := math.Float64bits(x) & (1<<29 - 1); middle == 1<<28 {
			ok = false
		}
	}
	if !ok {
		x, err := strconv.ParseFloat(string(text), 32)
		return float32(x), err
	}
	if text[0] == '-' {
		x = -x
	}
	return float32(x), nil
}

// parseWhole reads a whole number of up to 18 digits; anything else is left to strconv.
func parseWhole(text []byte) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 18 {
		return 0, false
	}
	for _, c := range text {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		n = 10*n + int64(d)
	}
	return n, true
}
