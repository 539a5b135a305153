package ps

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestToFixed(t *testing.T) {
	for _, c := range []struct {
		x    float32
		want int64
	}{
		{0, 0},
		{1, 1 << 32},
		{-1, -1 << 32},
		{0.5, 1 << 31},
		{1.0 / (1 << 32), 1},
		{1.0 / (1 << 33), 0},   // ties go to even
		{3.0 / (1 << 33), 2},   // likewise
		{-3.0 / (1 << 33), -2}, // and below zero
		{-1 << 31, -1 << 63},   // the lowest that fits
		{float32(1 << 30), 1 << 62},
	} {
		if got, err := ToFixed(c.x); err != nil || got != c.want {
			t.Errorf("ToFixed(%g) = %d, %v; want %d", c.x, got, err, c.want)
		}
	}
}

func TestToFixedRefusesWhatDoesNotFit(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, x := range []float32{1 << 31, math.Nextafter32(-1<<31, -inf), math.MaxFloat32, inf, -inf, nan} {
		if got, err := ToFixed(x); !errors.Is(err, ErrOverflow) {
			t.Errorf("ToFixed(%g) = %d, %v; want ErrOverflow", x, got, err)
		}
	}
}

func TestAddFixedOverflow(t *testing.T) {
	for _, c := range []struct{ a, b int64 }{
		{math.MaxInt64, 1}, {math.MinInt64, -1}, {math.MinInt64, math.MinInt64}, {math.MaxInt64, math.MaxInt64},
	} {
		if got, err := AddFixed(c.a, c.b); !errors.Is(err, ErrOverflow) {
			t.Errorf("AddFixed(%d, %d) = %d, %v; want ErrOverflow", c.a, c.b, got, err)
		}
	}
	if got, err := AddFixed(math.MaxInt64, math.MinInt64); err != nil || got != -1 {
		t.Errorf("AddFixed of the extremes = %d, %v; want -1", got, err)
	}
}

// The point of fixed point: any order of the same differences gives the same row, bit for bit. Floats lack this property.
func TestFoldDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		differences := rapid.SliceOfN(rapid.Float32Range(-8, 8), 1, 40).Draw(t, "differences")
		order := rapid.Permutation(differences).Draw(t, "order")
		start := rapid.Float32Range(-8, 8).Draw(t, "start")
		a, b := fold(t, start, differences), fold(t, start, order)
		if math.Float32bits(a) != math.Float32bits(b) {
			t.Fatalf("fold gives %x in one order and %x in another", a, b)
		}
	})
}

func fold(t *rapid.T, start float32, differences []float32) float32 {
	row, sum := []float32{start}, []int64{0}
	for _, d := range differences {
		if err := AddDifference(sum, []float32{d}); err != nil {
			t.Fatal(err)
		}
	}
	FoldSum(row, sum)
	return row[0]
}

func TestFixedRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float32Range(-1<<30, 1<<30).Draw(t, "x")
		fixed, err := ToFixed(x)
		if err != nil {
			t.Fatal(err)
		}
		if lost := math.Abs(float64(FromFixed(fixed)) - float64(x)); lost > 1.0/(1<<33) {
			t.Fatalf("%g came back with an error of %g", x, lost)
		}
	})
}

func TestAddDifferenceErrors(t *testing.T) {
	if err := AddDifference(make([]int64, 2), make([]float32, 3)); err == nil {
		t.Error("a difference of the wrong length was taken")
	}
	nan := float32(math.NaN())
	if err := AddDifference(make([]int64, 2), []float32{1, nan}); !errors.Is(err, ErrOverflow) {
		t.Errorf("not a number: %v; want ErrOverflow", err)
	}
}

func TestDifference(t *testing.T) {
	d := make([]float32, 2)
	Difference(d, []float32{1, 2}, []float32{1.5, 0})
	if d[0] != 0.5 || d[1] != -2 {
		t.Errorf("Difference = %v, want [0.5 -2]", d)
	}
}

func BenchmarkAddDifference(b *testing.B) {
	sum, difference := make([]int64, 1024), make([]float32, 1024)
	for i := range difference {
		difference[i] = float32(i%7-3) * 1e-3
	}
	b.SetBytes(int64(4 * len(difference)))
	for b.Loop() {
		if err := AddDifference(sum, difference); err != nil {
			b.Fatal(err)
		}
	}
}
