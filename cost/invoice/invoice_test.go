package invoice

import (
	"math"
	"testing"
	"time"
)

func at(hour, minute int) time.Time { return time.Date(2026, 10, 1, hour, minute, 0, 0, time.UTC) }

func TestCompare(t *testing.T) {
	ours := []Line{
		{"i-1", at(1, 30), at(3, 30), 0.20}, // 0.05, 0.10 and 0.05
		{"i-2", at(1, 0), at(2, 0), 0.30},
		{"i-3", at(1, 0), at(2, 0), 0.40},
	}
	theirs := []Line{
		{"i-1", at(1, 0), at(2, 0), 0.05}, {"i-1", at(2, 0), at(3, 0), 0.10}, {"i-1", at(3, 0), at(4, 0), 0.06},
		{"i-2", at(1, 0), at(2, 0), 0.3000001}, {"i-9", at(1, 0), at(2, 0), 5},
	}
	c := Compare(ours, theirs, "a bill", 0.0001)
	if c.Machines != 3 || c.Missing != 1 || c.Others != 1 || len(c.Differences) != 2 {
		t.Fatalf("%+v", c)
	}
	if d := c.Differences[0]; d.Machine != "i-3" || d.Ours != 0.40 || d.Theirs != 0 || !d.Hour.Equal(at(1, 0)) {
		t.Errorf("%+v", d)
	}
	if d := c.Differences[1]; d.Machine != "i-1" || math.Abs(d.Ours-0.05) > 1e-9 || d.Theirs != 0.06 || !d.Hour.Equal(at(3, 0)) {
		t.Errorf("%+v", d)
	}
	if math.Abs(c.Ours-0.90) > 1e-9 || math.Abs(c.Theirs-0.5100001) > 1e-9 {
		t.Errorf("ours %v, theirs %v", c.Ours, c.Theirs)
	}
}
