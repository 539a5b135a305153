package training

import (
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// A report covers enough clocks and time for one lost or unusual clock not to matter.
const (
	reportClocks = 32
	reportEvery  = 2 * time.Second // wall clock
)

// profile measures the load of serving the model, by owners' heartbeats and the lengths of clocks.
type profile struct {
	*step.Step
	layout *layout
	of     *tiers.Profiler
	lately []time.Duration // lengths of the clocks since the last report
	sum    time.Duration   // of lately
	serves bool            // value in the last report: the reliable machines do nothing else
}

// record adds a node's work for partitions since its previous heartbeat. For a partition that it did not own then, its figure is the
// starting value. Both lists are sorted. Bytes count only while the node serves the same partitions: those that travel count as moves.
func (p *profile) record(was, now tiers.Heartbeat) {
	before := was.Serving
	var since []ps.Serving
	for _, s := range now.Serving {
		for len(before) > 0 && before[0].Partition < s.Partition {
			before = before[1:]
		}
		if len(before) > 0 && before[0].Partition == s.Partition {
			since = append(since, ps.Serving{Partition: s.Partition, Took: s.Took - before[0].Took, Clocks: s.Clocks - before[0].Clocks})
		}
	}
	for _, s := range since {
		p.of.Served(s)
	}
	if len(since) == len(now.Serving) && len(since) == len(was.Serving) {
		p.of.Carried(since, now.BytesIn-was.BytesIn, now.BytesOut-was.BytesOut)
	}
}

// clockDone records the length of a clock, in wall-clock seconds. It journals a new profile, and reports the present one at intervals.
func (p *profile) clockDone(clock ps.Clock, seconds float64) {
	if p.Silent || seconds <= 0 {
		return
	}
	length := time.Duration(seconds * float64(time.Second))
	p.lately, p.sum = append(p.lately, length), p.sum+length
	news := p.of.Clock(length)
	if news || p.serves != p.layout.onlyServes() || len(p.lately) >= reportClocks && p.sum >= reportEvery {
		p.report()
	}
	if !news {
		return
	}
	of := p.of.Profile()
	p.Record(func() journal.Entry {
		details, _ := journal.Pack(journal.ProfileDetails{Serving: nanos(of.Serving), In: of.In, Out: of.Out}) // of integers
		return journal.Entry{Kind: journal.Profile, Clock: int64(clock), Seconds: of.Clock.Seconds(), Details: details}
	})
}

// report sends the profile, if there is one.
func (p *profile) report() {
	slices.Sort(p.lately)
	p.serves = p.layout.onlyServes()
	r := tiers.Served{Profile: p.of.Profile(), Owners: slices.Clone(p.layout.Route.Owner), Clocks: len(p.lately), Lately: p.lately[len(p.lately)/2], OnlyServes: p.serves}
	p.lately, p.sum = p.lately[:0], 0
	if r.Known() {
		p.Do(Profiled{r})
	}
}

func nanos(times []time.Duration) []int64 {
	out := make([]int64, len(times))
	for i, t := range times {
		out[i] = t.Nanoseconds()
	}
	return out
}
