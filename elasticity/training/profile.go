package training

import (
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// profile measures what it takes to serve the model, by owners' heartbeats and the lengths of clocks.
type profile struct {
	*step.Step
	of *tiers.Profiler
}

// heard takes in what a node has done for partitions since its heartbeat before. Of one that it did not own then, its figure is where it
// counts from. Both lists are in order.
func (p *profile) heard(before, now []ps.Serving) {
	for _, s := range now {
		for len(before) > 0 && before[0].Partition < s.Partition {
			before = before[1:]
		}
		if len(before) > 0 && before[0].Partition == s.Partition {
			p.of.Served(ps.Serving{Partition: s.Partition, Took: s.Took - before[0].Took, Clocks: s.Clocks - before[0].Clocks})
		}
	}
}

// clockDone takes in the length of a clock, in wall-clock seconds, and writes down a profile that is new.
func (p *profile) clockDone(clock ps.Clock, seconds float64) {
	if p.Silent || !p.of.Clock(time.Duration(seconds*float64(time.Second))) {
		return
	}
	of := p.of.Profile()
	p.Do(Profiled{of})
	p.Record(func() journal.Entry {
		details, _ := journal.Pack(journal.ProfileDetails{Serving: nanos(of.Serving)}) // of integers
		return journal.Entry{Kind: journal.Profile, Clock: int64(clock), Seconds: of.Clock.Seconds(), Details: details}
	})
}

func nanos(times []time.Duration) []int64 {
	out := make([]int64, len(times))
	for i, t := range times {
		out[i] = t.Nanoseconds()
	}
	return out
}
