package training

import (
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// The bytes of two machines count for the partitions that each serves. Those of heartbeats between which partitions moved do not count.
func TestBytesAreMeasuredWhileNothingMoves(t *testing.T) {
	p := &profile{Step: &step.Step{}, of: tiers.NewProfiler(3, tiers.Profile{})}
	beat := func(clocks int64, in, out int64, owned ...ps.Partition) tiers.Heartbeat {
		h := tiers.Heartbeat{BytesIn: in, BytesOut: out}
		for _, id := range owned {
			h.Serving = append(h.Serving, ps.Serving{Partition: id, Took: time.Duration(clocks) * time.Millisecond, Clocks: clocks})
		}
		return h
	}
	for c := range int64(40) {
		p.record(beat(c, 600*c, 200*c, 0, 1), beat(c+1, 600*(c+1), 200*(c+1), 0, 1))
		p.record(beat(c, 500*c, 100*c, 2), beat(c+1, 500*(c+1), 100*(c+1), 2))
		p.record(beat(c, 0, 0, 2), beat(c+1, 1<<30, 1<<30, 1, 2)) // partition 1 has just arrived
		p.record(beat(c, 0, 0, 1, 2), beat(c+1, 1<<30, 1<<30, 2)) // and left again
		p.of.Clock(100 * time.Millisecond)
	}
	if of := p.of.Profile(); !slices.Equal(of.In, []int64{300, 300, 500}) || !slices.Equal(of.Out, []int64{100, 100, 100}) {
		t.Errorf("bytes in %v and out %v", of.In, of.Out)
	}
}
