package runner

import (
	"math"
	"testing"
	"time"

	"github.com/tierml/tierml/tiers"
)

// TestUseIsJournaledLessOftenAsTheRunAges: nothing is lost between lines, and a day has few.
func TestUseIsJournaledLessOftenAsTheRunAges(t *testing.T) {
	var u uses
	var cpu float64
	var in int64
	lines := 0
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const day = 86400
	for s := 0; s <= day; s += 2 {
		r := tiers.Used{Seconds: float64(s), CPU: float64(s) * 1.5, Memory: 100, BytesIn: int64(s) * 10}
		if s%600 == 300 {
			r.Memory = 900
		}
		if e, due := u.take("a", r, began.Add(time.Duration(s)*time.Second)); due {
			lines++
			cpu, in = cpu+e.CPU, in+e.BytesIn
			if err := e.Validate(); err == nil {
				t.Fatal("it has no time yet")
			}
			if s > 80000 && e.Memory != 900 {
				t.Errorf("the peak within %v s is %d", e.Seconds, e.Memory)
			}
		}
	}
	if lines < 300 || lines > 500 {
		t.Errorf("%d lines in a day", lines)
	}
	if rest := (day - 1500) * 1.5; cpu < rest || cpu > day*1.5 || in < (day-1500)*10 {
		t.Errorf("%v s and %d bytes are in the journal", cpu, in)
	}
}

// TestUseOfAMaliciousMachineIsANumber: a journal that cannot be written ends the run.
func TestUseOfAMaliciousMachineIsANumber(t *testing.T) {
	var u uses
	now := time.Now()
	nan, inf := math.NaN(), math.Inf(1)
	for i, r := range []tiers.Used{{Seconds: 1}, {Seconds: nan, CPU: nan}, {Seconds: 2, CPU: 7}, {Seconds: 9, CPU: inf, GPU: nan, BytesIn: 5},
		{Seconds: inf, CPU: 1, BytesIn: 3}, {Seconds: 1, CPU: -inf}, {Seconds: 30, CPU: 3, GPU: 1e300}, {Seconds: 60, CPU: 1, GPU: inf}} {
		e, due := u.take("a", r, now.Add(time.Duration(i)*time.Minute))
		if !due {
			continue
		}
		for _, v := range []float64{e.Seconds, e.CPU, e.GPU} {
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				t.Errorf("%d: %+v", i, e)
			}
		}
		if e.GPU > e.Seconds || e.BytesIn < 0 {
			t.Errorf("%d: %+v", i, e)
		}
	}
}
