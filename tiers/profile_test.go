package tiers

import (
	"slices"
	"testing"
	"time"

	"github.com/tierml/tierml/ps"
)

// clocks feeds a profiler clocks of one length, in each of which every partition except the omitted ones takes its time.
func clocks(p *Profiler, n int, length time.Duration, serving []time.Duration, silent ...ps.Partition) (news int) {
	for range n {
		for i, took := range serving {
			if id := ps.Partition(i); !slices.Contains(silent, id) {
				p.Served(ps.Serving{Partition: id, Took: took, Clocks: 1})
			}
		}
		if p.Clock(length) {
			news++
		}
	}
	return news
}

// A profile is known after a window of clocks, and is reported again when it has changed by more than a quarter for two windows.
func TestProfileFollowsWhatIsMeasured(t *testing.T) {
	p := NewProfiler(2, Profile{})
	serving := []time.Duration{30 * time.Millisecond, 20 * time.Millisecond}
	if n := clocks(p, profiled-1, time.Second, serving); n != 0 || p.Profile().Known() {
		t.Fatalf("%d profiles of too few clocks: %+v", n, p.Profile())
	}
	p.Served(ps.Serving{Partition: 2, Took: time.Hour, Clocks: 1}) // a node's false report does no harm
	p.Served(ps.Serving{Partition: 0, Took: -time.Hour, Clocks: 1})
	if n := clocks(p, 1, time.Hour, serving); n != 1 { // one long clock is no trend
		t.Fatalf("%d profiles of a whole window", n)
	}
	want := Profile{Clock: time.Second, Serving: serving}
	if got := p.Profile(); !got.Equal(want) || got.Whole() != 50*time.Millisecond {
		t.Fatalf("profile %+v of %s in all, want %+v", got, got.Whole(), want)
	}
	if n := clocks(p, 3*profiled, 1200*time.Millisecond, serving); n != 0 || !p.Profile().Equal(want) {
		t.Errorf("%d profiles after a change of a fifth", n)
	}
	for range 5 { // a tiny job's
		if n := clocks(p, profiled, 2*time.Second, serving) + clocks(p, profiled, time.Second, serving); n != 0 {
			t.Errorf("%d profiles after one odd window", n)
		}
	}
	serving[1] *= 2
	if n := clocks(p, 3*profiled, time.Second, serving); n != 1 || p.Profile().Serving[1] != 40*time.Millisecond {
		t.Errorf("%d profiles after serving has grown by two fifths: %+v", n, p.Profile())
	}
	if n := clocks(NewProfiler(2, p.Profile()), profiled, time.Second, serving); n != 0 {
		t.Errorf("a successor repeats what is written")
	}
}

// A machine's bytes are divided among its partitions by the time that serving them takes, and a change of them alone is news.
func TestProfileCountsBytes(t *testing.T) {
	p := NewProfiler(3, Profile{})
	took := []time.Duration{10 * time.Millisecond, 30 * time.Millisecond, 20 * time.Millisecond}
	window := func(each int64) (news int) {
		for range profiled {
			for _, of := range [][]ps.Partition{{0, 1}, {2}} { // of two machines
				var served []ps.Serving
				for _, id := range of {
					served = append(served, ps.Serving{Partition: id, Took: took[id], Clocks: 1})
				}
				p.Carried(served, 4*each, 8*each)
				p.Carried(append(served, ps.Serving{Partition: 9, Took: time.Second, Clocks: 1}), 1<<40, 1<<40) // a node's false reports do no harm
				p.Carried(served, -1<<40, 1<<40)
			}
			news += clocks(p, 1, time.Second, took)
		}
		return news
	}
	if n := window(1000); n != 1 || !slices.Equal(p.Profile().In, []int64{1000, 3000, 4000}) || !slices.Equal(p.Profile().Out, []int64{2000, 6000, 8000}) {
		t.Fatalf("%d profiles: %+v", n, p.Profile())
	}
	if n := window(1200) + window(1200); n != 0 {
		t.Errorf("%d profiles after a fifth more", n)
	}
	if n := window(2000) + window(2000); n != 1 || p.Profile().Out[2] != 16000 {
		t.Errorf("%d profiles after twice the bytes: %+v", n, p.Profile())
	}
	was := p.Profile()
	took[0] *= 5
	if n := clocks(p, 2*profiled, time.Second, took); n != 1 || !slices.Equal(p.Profile().In, was.In) {
		t.Errorf("%d profiles of clocks in which no machine kept its partitions: %+v", n, p.Profile())
	}
}

// An agent that does not measure leaves the job without a profile, and the profiler's list does not grow.
func TestNoProfileWithoutEveryPartition(t *testing.T) {
	p := NewProfiler(2, Profile{})
	serving := []time.Duration{time.Millisecond, time.Millisecond}
	for range 1000 {
		if n := clocks(p, 1, time.Second, serving, 1); n != 0 {
			t.Fatalf("a profile of half of the model: %+v", p.Profile())
		}
		if len(p.lengths) > longestWindow {
			t.Fatalf("%d lengths are kept", len(p.lengths))
		}
	}
	if n := clocks(p, longestWindow, time.Second, serving); n != 1 {
		t.Errorf("%d profiles once all partitions are measured", n)
	}
}
