package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}, {[]float64{7}, 7}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %g, not %g", c.values, got, c.want)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("nothing has a median")
	}
}

// The ranks are those of the usual tables of the sign test.
func TestMedianIntervalRanks(t *testing.T) {
	for _, c := range []struct{ n, low, high int }{{15, 4, 12}, {20, 6, 15}, {5, 1, 5}, {3, 1, 3}, {1, 1, 1}, {31, 11, 21}} {
		values := make([]float64, c.n)
		for i := range values {
			values[i] = float64(c.n - i)
		}
		low, high := medianInterval(values, 0.9)
		if low != float64(c.low) || high != float64(c.high) {
			t.Errorf("of %d values: ranks %g to %g, not %d to %d", c.n, low, high, c.low, c.high)
		}
	}
}

func TestMedianIntervalCovers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const runs = 5000
	covered := 0
	for range runs {
		values := make([]float64, 15)
		for i := range values {
			values[i] = math.Exp(random.NormFloat64()) // skewed; its median is 1
		}
		if low, high := medianInterval(values, 0.9); low <= 1 && 1 <= high {
			covered++
		}
	}
	if share := float64(covered) / runs; share < 0.95 || share > 0.98 { // ranks 4 to 12 of 15: 0.965
		t.Errorf("covers the median in %.3f of runs", share)
	}
}
