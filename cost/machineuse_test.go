package cost

import (
	"math"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// TestUseIsHalvedInResolution: for any number of lines a machine keeps at most 240 steps, with the same sum and the same peak.
func TestUseIsHalvedInResolution(t *testing.T) {
	var s steps
	var cpu float64
	for i := range 1000 {
		e := journal.Entry{T: time.Unix(int64(i), 0), Seconds: 1 + float64(i%3), OfUse: journal.OfUse{CPU: float64(i % 7), Memory: int64(i % 501)}}
		cpu += e.CPU
		s.add(e)
		if len(s) > mostUse {
			t.Fatalf("%d steps after %d lines", len(s), i+1)
		}
	}
	s.add(journal.Entry{T: time.Unix(2000, 0), OfUse: journal.OfUse{CPU: 1}}) // of zero duration
	whole, ok := MachineUse{Steps: s}.Whole()
	if !ok || math.Abs(whole.Cores*whole.Seconds-cpu) > 1e-6 || whole.Memory != 500 || !whole.At.Equal(time.Unix(999, 0)) {
		t.Errorf("%+v, want %v s of processor time", whole, cpu)
	}
}
