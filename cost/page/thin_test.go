package page

import (
	"math"
	"testing"
)

// A long curve is drawn with a bounded number of points, and keeps its first, last and extreme values.
func TestThinned(t *testing.T) {
	var points []point
	for i := range 100_000 {
		points = append(points, point{float64(i), math.Sin(float64(i) / 700)})
	}
	points[50_123].y, points[70_077].y = 9, -9
	c := chart{lines: []line{{points: points}}}
	f := c.frame(340, 260)
	thin := f.thinned(points)
	if len(thin) > 4*340 || thin[0] != points[0] || thin[len(thin)-1] != points[len(points)-1] {
		t.Errorf("%d points, from %v to %v", len(thin), thin[0], thin[len(thin)-1])
	}
	low, high := 0.0, 0.0
	for i, p := range thin {
		low, high = min(low, p.y), max(high, p.y)
		if i > 0 && p.x <= thin[i-1].x {
			t.Fatalf("point %d does not come after the one before", i)
		}
	}
	if low != -9 || high != 9 {
		t.Errorf("extremes are %v and %v", low, high)
	}
	if few := points[:100]; len(f.thinned(few)) != len(few) {
		t.Error("a short curve was thinned")
	}
}
