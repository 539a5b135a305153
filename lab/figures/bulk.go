package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// bulk is figure 11: four reliable machines train, sixty transient ones join, and all of those are evicted with a
// warning.
type bulk struct {
	alone   time.Duration // a clock on the four at first, median
	joining time.Duration // the longest clock while the sixty join
	all     time.Duration // a clock on sixty-four, median
	evicted time.Duration // the longest clock from the warning until the four are alone again
	after   time.Duration // a clock on the four afterwards, median
}

const (
	bulkMachines = 60
	bulkReliable = 4
	bulkWarning  = 30 * time.Second
)

func (b bulk) print(out io.Writer) {
	fmt.Fprintf(out, "4 reliable machines: %.2f s a clock; while 60 join the longest takes %.2f s (%+.1f %%; at most +5 %%); with them %.2f s\n",
		b.alone.Seconds(), b.joining.Seconds(), percent(b.joining, b.alone), b.all.Seconds())
	fmt.Fprintf(out, "all 60 evicted with a warning of %v: the longest clock takes %.2f s, those after it %.2f s (%+.1f %%; at most +13 %%)\n",
		bulkWarning, b.evicted.Seconds(), b.after.Seconds(), percent(b.evicted, b.after))
}

func percent(a, b time.Duration) float64 { return 100 * (a.Seconds()/b.Seconds() - 1) }

// grow runs figure 11 once.
func grow(ctx context.Context, n *network, s settings) (b bulk, err error) {
	l := layout{transient: bulkMachines, reliable: bulkReliable, two: 1, three: 15}
	r, err := begin(ctx, n, s, l)
	if err != nil {
		return b, err
	}
	defer r.end()
	r.policy.count.Store(0)
	phase := func(done func(*diary) bool) ([]time.Duration, error) {
		r.diary.mark(1)
		err := r.wait(done)
		return r.diary.lengths(), err
	}
	const enough = 2
	if err := r.wait(func(d *diary) bool { return d.joined >= bulkReliable && d.settled() }); err != nil {
		return b, err
	}
	if err := r.takeTime(2); err != nil {
		return b, err
	}
	lengths, err := phase(func(d *diary) bool { return len(d.clocks)-d.from > enough })
	if err != nil {
		return b, err
	}
	b.alone = median(lengths)
	r.policy.count.Store(bulkMachines)
	// The sixty have joined, and all moves have ended, once nothing has changed for two clocks.
	if lengths, err = phase(func(d *diary) bool { return d.joined >= bulkReliable+bulkMachines && d.since() >= 2 }); err != nil {
		return b, err
	}
	b.joining = slices.Max(lengths)
	if lengths, err = phase(func(d *diary) bool { return len(d.clocks)-d.from > 4*enough }); err != nil {
		return b, err
	}
	b.all = median(lengths)
	r.policy.count.Store(0)
	r.cloud.evict(bulkWarning)
	if lengths, err = phase(func(d *diary) bool { return d.left >= bulkMachines && d.since() >= 1 }); err != nil {
		return b, err
	}
	b.evicted = slices.Max(lengths)
	if lengths, err = phase(func(d *diary) bool { return len(d.clocks)-d.from > enough }); err != nil {
		return b, err
	}
	b.after = median(lengths)
	return b, nil
}

func median(times []time.Duration) time.Duration {
	times = slices.Clone(times)
	slices.Sort(times)
	return times[len(times)/2]
}
