package invoice

import (
	"math"
	"testing"
	"time"
)

func at(hour, minute int) time.Time { return time.Date(2026, 10, 1, hour, minute, 0, 0, time.UTC) }

func TestCompare(t *testing.T) {
	ours := []Line{
		{Machine: "i-1", From: at(1, 30), To: at(3, 30), USD: 0.20}, // 0.05, 0.10 and 0.05
		{Machine: "i-2", From: at(1, 0), To: at(2, 0), USD: 0.30},
		{Machine: "i-3", From: at(1, 0), To: at(2, 0), USD: 0.40},
	}
	theirs := []Line{
		{Machine: "i-1", From: at(1, 0), To: at(2, 0), USD: 0.05}, {Machine: "i-1", From: at(2, 0), To: at(3, 0), USD: 0.10}, {Machine: "i-1", From: at(3, 0), To: at(4, 0), USD: 0.06},
		{Machine: "i-2", From: at(1, 0), To: at(2, 0), USD: 0.3000001}, {Machine: "i-9", From: at(1, 0), To: at(2, 0), USD: 5},
	}
	traffic := func(machine string, usd float64) Line {
		return Line{Machine: machine, From: at(1, 0), To: at(2, 0), USD: usd, Traffic: true}
	}
	ours, theirs = append(ours, traffic("i-1", 0.02)), append(theirs, traffic("i-1", 0.01), traffic("i-2", 0.02), traffic("i-9", 1))
	c := Compare(ours, theirs, "a bill", 0.0001)
	if math.Abs(c.OurTraffic-0.02) > 1e-9 || math.Abs(c.TheirTraffic-0.03) > 1e-9 {
		t.Errorf("traffic: ours %v, theirs %v", c.OurTraffic, c.TheirTraffic)
	}
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
