package ps

import (
	"fmt"
	"math"

	"github.com/tierml/tierml/internal/cells"
)

// Kind is the type of a table's cells.
type Kind uint8

const (
	// Float32 is a parameter.
	Float32 Kind = iota
	// Int32 is a count. Sums of counts are exact in every mode, and overflow is ErrOverflow.
	Int32
)

func (k Kind) String() string {
	switch k {
	case Float32:
		return "float32"
	case Int32:
		return "int32"
	}
	return fmt.Sprintf("kind %d", k)
}

// A row is a slice of 32-bit cells, whatever its kind: []float32 everywhere in this program. The cells of an Int32 table are the bits of
// int32 numbers. They are copied like all others and never used as floats; Ints reinterprets them.

// Ints returns the cells of an Int32 row as integers. It shares the memory.
func Ints(row []float32) []int32 { return cells.Ints(row) }

// Cells returns integers as the cells of an Int32 row. It shares the memory.
func Cells(ints []int32) []float32 { return cells.Of(ints) }

// Counts are added like this, as fixed.go does for parameters:
//
//	sum[i] += changed[i] - given[i]     once per split that changed the row
//	row[i] += sum[i]                    once per clock
//
// In deterministic mode the sums are int64 (Sums.Fixed), otherwise the cells of int32 (Sums.Float).

// AddCounts adds the change of a row of counts to its sum.
func AddCounts(sum []int64, given, changed []int32) error {
	if len(given) != len(sum) || len(changed) != len(sum) {
		return fmt.Errorf("change of %d to %d counts for a row of %d", len(given), len(changed), len(sum))
	}
	for i := range sum {
		var err error
		if sum[i], err = AddFixed(sum[i], int64(changed[i])-int64(given[i])); err != nil {
			return fmt.Errorf("column %d: %w", i, err)
		}
	}
	return nil
}

// AddInts adds counts to counts.
func AddInts(sum, more []int32) error {
	if len(more) != len(sum) {
		return fmt.Errorf("%d counts for a row of %d", len(more), len(sum))
	}
	for i, n := range more {
		total, err := toInt32(int64(sum[i]) + int64(n))
		if err != nil {
			return fmt.Errorf("column %d: %w", i, err)
		}
		sum[i] = total
	}
	return nil
}

// DifferenceInts sets dst to changed minus given.
func DifferenceInts(dst, given, changed []int32) error {
	_, _ = given[:len(dst)], changed[:len(dst)]
	for i := range dst {
		var err error
		if dst[i], err = toInt32(int64(changed[i]) - int64(given[i])); err != nil {
			return fmt.Errorf("column %d: %w", i, err)
		}
	}
	return nil
}

// FoldCounts adds a clock's sum to a row of counts. After an error the row must not be used.
func FoldCounts(row []int32, sum []int64) error {
	_ = sum[:len(row)]
	for i := range row {
		total, err := AddFixed(int64(row[i]), sum[i])
		if err == nil {
			row[i], err = toInt32(total)
		}
		if err != nil {
			return fmt.Errorf("column %d: %w", i, err)
		}
	}
	return nil
}

func toInt32(n int64) (int32, error) {
	if n < math.MinInt32 || n > math.MaxInt32 {
		return 0, fmt.Errorf("count %d does not fit int32: %w", n, ErrOverflow)
	}
	return int32(n), nil
}
