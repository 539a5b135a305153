package ps

import (
	"errors"
	"fmt"
	"math"
)

// Deterministic mode adds up a row's updates in 64-bit fixed point. Integer addition is associative, so neither the number of machines nor
// the order in which their updates arrive can change a bit of the result. Everything that folds updates (servers, and the single-process
// driver that defines the right answer) uses the functions of this file, in this order:
//
//	sum[i] += ToFixed(changed[i] - given[i])     once per split that changed the row
//	row[i] += FromFixed(sum[i])                  once per clock
//
// The steps between are float32 with one rounding each: there is no product, hence nothing that a compiler could fuse.

// fixedOne is 1.0 in fixed point: 32 bits before the point and 32 after it. The smallest difference that
// counts is 2^-33, far below a float32 parameter's own resolution at any usual size; the largest is 2^31.
const fixedOne = 1 << 32

// ErrOverflow says that a sum or a count is too large for its type, or that an update is NaN.
var ErrOverflow = errors.New("overflow")

// errDiverged is ErrOverflow of parameters.
var errDiverged = fmt.Errorf("update does not fit 64-bit fixed point: training has diverged; use a smaller step (%w)", ErrOverflow)

// ToFixed converts a difference to fixed point, rounded to the nearest, ties to even.
func ToFixed(x float32) (int64, error) {
	scaled := float64(x) * fixedOne // a power of two: exact
	if !(scaled >= -(1<<63) && scaled < 1<<63) {
		return 0, fmt.Errorf("%g: %w", x, errDiverged)
	}
	return int64(math.RoundToEven(scaled)), nil
}

// AddFixed adds two fixed-point numbers.
func AddFixed(a, b int64) (int64, error) {
	sum := a + b
	if (a > 0 && b > 0 && sum < 0) || (a < 0 && b < 0 && sum >= 0) {
		return 0, errDiverged
	}
	return sum, nil
}

// FromFixed converts a sum back. Sums beyond 2^53 are rounded twice, the same way everywhere.
func FromFixed(x int64) float32 {
	return float32(float64(x) / fixedOne)
}

// Difference sets dst to an update's change: changed minus given.
func Difference(dst, given, changed []float32) {
	_, _ = given[:len(dst)], changed[:len(dst)]
	for i := range dst {
		dst[i] = changed[i] - given[i]
	}
}

// AddDifference adds a row's difference to its sum. After an error the sum must not be used.
func AddDifference(sum []int64, difference []float32) error {
	if len(sum) != len(difference) {
		return fmt.Errorf("difference of %d columns for a row of %d", len(difference), len(sum))
	}
	for i, d := range difference {
		// The common case of ToFixed and AddFixed, inlined: training of models with many parameters spends nearly all its time here. The
		// slow path returns the errors.
		scaled := float64(d) * fixedOne
		fixed := int64(math.RoundToEven(scaled))
		total := sum[i] + fixed
		if !(scaled > -(1<<62) && scaled < 1<<62) || (total^sum[i])&(total^fixed) < 0 {
			if err := addOne(&sum[i], i, d); err != nil {
				return err
			}
			continue
		}
		sum[i] = total
	}
	return nil
}

func addOne(sum *int64, column int, difference float32) error {
	fixed, err := ToFixed(difference)
	if err == nil {
		*sum, err = AddFixed(*sum, fixed)
	}
	if err != nil {
		return fmt.Errorf("column %d: %w", column, err)
	}
	return nil
}

// FoldSum adds a clock's sum to the row.
func FoldSum(row []float32, sum []int64) {
	_ = sum[:len(row)]
	for i := range row {
		row[i] += FromFixed(sum[i])
	}
}
