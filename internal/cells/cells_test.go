package cells

import (
	"math"
	"slices"
	"testing"
)

// Every bit pattern is preserved, including signalling NaNs, also in copies.
func TestSameMemory(t *testing.T) {
	ints := []int32{0, 1, -1, math.MaxInt32, math.MinInt32, 0x7f800001, -0x7fffff}
	row := make([]float32, len(ints))
	copy(row, Of(ints))
	if got := Ints(append([]float32(nil), row...)); !slices.Equal(got, ints) {
		t.Errorf("%v came back as %v", ints, got)
	}
	Ints(row)[1] = 7
	if math.Float32bits(row[1]) != 7 {
		t.Error("the integers are a copy")
	}
	if Ints(nil) != nil || Of(nil) != nil {
		t.Error("nothing became something")
	}
}
