package elasticity

import (
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// stopWaiting gives up a clock that has not begun. A split that was taken over can be behind: the clock that is
// waited for may need its work, so that the wait must not be finished first.
func (n *node) stopWaiting() {
	if n.worker.waiting {
		n.worker.life++
		n.worker.busy, n.worker.waiting = false, false
	}
}

// work begins the lowest clock among the splits.
func (n *node) work() {
	k := &n.worker
	if k.busy || k.parked || n.dead || n.fencedAt > n.generation {
		return
	}
	low := ps.Clock(math.MaxInt64)
	for _, c := range k.splits {
		low = min(low, c)
	}
	if len(k.splits) == 0 || low > k.until {
		return
	}
	k.busy, k.waiting, k.clock, k.group = true, true, low, nil
	for s, c := range k.splits {
		if c == low {
			k.group = append(k.group, s)
		}
	}
	slices.Sort(k.group)
	n.read(k.life)
}

// each does f for every partition, in random order and with delays, then then. f is repeated until it is true;
// it is told the owner.
func (n *node) each(life int, f func(p ps.Partition, owner *node) bool, then func()) {
	left := n.w.schema.Partitions
	for _, i := range n.w.rng.Perm(n.w.schema.Partitions) {
		p := ps.Partition(i)
		at := n.route.Owner[p]
		var try func()
		try = func() {
			if n.worker.life != life {
				return
			}
			owner := n.w.nodes[at]
			ok := false
			switch {
			case owner == nil || owner.dead:
				at = n.route.Owner[p]
			case owner.generation != n.generation || owner.fencedAt > n.generation || owner.leaving[p]:
			case owner.shards[p] == nil:
				if to, moved := owner.moved[p]; moved {
					at = to
				} else {
					at = n.route.Owner[p]
				}
			default:
				ok = f(p, owner)
			}
			if !ok {
				n.soon(try)
				return
			}
			if left--; left == 0 {
				then()
			}
		}
		n.soon(try)
	}
}

func (n *node) read(life int) {
	rows := map[ps.Key][]float32{}
	clock := n.worker.clock
	n.each(life, func(p ps.Partition, owner *node) bool {
		s := owner.shards[p]
		if !s.CanRead(clock) {
			return false
		}
		for _, k := range n.w.keys() {
			if n.w.schema.PartitionOf(k) == p {
				rows[k] = make([]float32, n.w.schema.Cols(k))
				s.Read(k, rows[k])
			}
		}
		return true
	}, func() {
		n.worker.waiting = false
		for k, row := range rows {
			if !slices.Equal(row, n.w.truth[clock-1][k]) {
				n.w.dump()
				n.w.t.Fatalf("%s clock %d: row %v of partition %d reads %v, undisturbed %v", n.id, clock, k, n.w.schema.PartitionOf(k), row, n.w.truth[clock-1][k])
			}
		}
		n.w.after(n.w.delay(100*time.Millisecond), func() {
			if n.worker.life == life && !n.dead {
				n.contribute(life, rows)
			}
		})
	})
}

// toyUpdate is what a split adds to a row at a clock: it depends on what was read, so that a wrong read shows
// in the result.
func toyUpdate(split ps.Split, clock ps.Clock, row []float32) []float32 {
	out := make([]float32, len(row))
	for i, v := range row {
		out[i] = float32(v*0.01) + float32(int(split+1)*(int(clock)%7-3))*0.001
	}
	return out
}

func (n *node) contribute(life int, rows map[ps.Key][]float32) {
	k := &n.worker
	k.sequence++
	sums := map[ps.Partition]*ps.Sums{}
	for p := range n.w.schema.Partitions {
		sums[ps.Partition(p)] = &ps.Sums{}
	}
	for _, key := range n.w.keys() {
		if (int(key.Row)+int(k.clock))%3 == 0 {
			continue // not every clock touches every row
		}
		u := sums[n.w.schema.PartitionOf(key)]
		u.Keys = append(u.Keys, key)
		total := make([]int64, len(rows[key]))
		for _, s := range k.group {
			for i, v := range toyUpdate(s, k.clock, rows[key]) {
				f, err := ps.ToFixed(v)
				if err != nil {
					n.w.t.Fatal(err)
				}
				total[i] += f
			}
		}
		u.Fixed = append(u.Fixed, total...)
	}
	n.stageAndCommit(life, k.sequence, sums)
}

func (n *node) stageAndCommit(life int, seq uint64, sums map[ps.Partition]*ps.Sums) {
	k := &n.worker
	inc, clock, group := k.incarnation, k.clock, slices.Clone(k.group)
	stage := func(p ps.Partition, owner *node) bool {
		if owner.fenced[inc] {
			return false
		}
		_, err := owner.shards[p].Stage(&ps.Contribution{Incarnation: inc, Sequence: seq, Clock: clock, Splits: group, Updates: *sums[p]})
		if err != nil {
			n.w.t.Errorf("%s stages clock %d at %s: %v", n.id, clock, owner.id, err)
		}
		return true
	}
	n.each(life, stage, func() {
		n.each(life, func(p ps.Partition, owner *node) bool {
			if owner.fenced[inc] {
				return false
			}
			_, err := owner.shards[p].Commit(inc, seq)
			if err == ps.ErrNotStaged { // a promoted backup took over in between
				stage(p, owner)
				_, err = owner.shards[p].Commit(inc, seq)
			}
			if err != nil {
				n.w.t.Errorf("%s commits clock %d at %s: %v", n.id, clock, owner.id, err)
			}
			owner.offerCuts()
			return true
		}, func() { n.committed(clock, group) })
	})
}

func (n *node) committed(clock ps.Clock, group []ps.Split) {
	k := &n.worker
	k.busy = false
	stats := tiers.Progress{Generation: n.generation, Clock: clock, Seconds: 0.1}
	for _, s := range group {
		k.splits[s] = clock + 1
		stats.Splits = append(stats.Splits, tiers.SplitStats{Split: s, Examples: 1, Loss: 1})
	}
	n.report(stats)
	n.answerReleases()
	n.work()
}

func (n *node) answerReleases() {
	k := &n.worker
	var left []release
	for _, r := range k.releases {
		if k.busy && slices.ContainsFunc(r.splits, func(s ps.Split) bool { return slices.Contains(k.group, s) }) {
			left = append(left, r)
			continue
		}
		var out tiers.Released
		for _, s := range r.splits {
			if c, ok := k.splits[s]; ok {
				out.Splits = append(out.Splits, tiers.SplitAt{Split: s, Clock: c})
				delete(k.splits, s)
			}
		}
		n.answer(r.id, tiers.CodeOK, nil, out)
	}
	k.releases = left
}
