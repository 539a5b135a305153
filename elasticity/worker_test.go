package elasticity

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// worker is the node's part that computes on splits: the lowest clock first, one round at a time.
type worker struct {
	generation  ps.Generation
	incarnation ps.Incarnation
	sequence    uint64
	splits      map[ps.Split]ps.Clock // first clock not begun
	until       ps.Clock
	parked      bool
	fenced      bool     // its generation is over: waits for Recover
	begun       ps.Clock // highest clock begun
	life        int      // grows when what is under way is given up
	busy        bool
	waiting     bool // busy, and not begun: the rows that it needs are not fresh yet
	clock       ps.Clock
	group       []ps.Split
	releases    []release
}

type release struct {
	id     uint64
	splits []ps.Split
}

func (n *node) obeyWork(c tiers.Command) {
	k := &n.worker
	switch do := c.Do.(type) {
	case tiers.Load:
		n.w.after(n.w.delay(time.Second), func() {
			if !n.dead {
				n.answer(c.ID, nil, nil)
			}
		})
	case tiers.Assign:
		for _, s := range do.Splits {
			if _, ok := k.splits[s.Split]; ok {
				n.answer(c.ID, failure("split is assigned already"), nil)
				return
			}
			k.splits[s.Split] = s.Clock
			if k.waiting && s.Clock < k.clock {
				k.breakOff() // what is waited for may be this very clock
			}
		}
		n.answer(c.ID, nil, nil)
		n.work()
	case tiers.Release:
		if k.fenced {
			n.answer(c.ID, failure("the generation is over"), nil)
			return
		}
		k.releases = append(k.releases, release{id: c.ID, splits: do.Splits})
		if slices.ContainsFunc(do.Splits, func(s ps.Split) bool { return slices.Contains(k.group, s) }) {
			k.breakOff()
		}
		n.answerReleases()
		n.work()
	case tiers.Park:
		k.parked = true
		k.breakOff()
		n.answer(c.ID, nil, tiers.Parked{Begun: k.begun})
	case tiers.Unpark:
		k.parked, k.until = false, do.Until
		n.answer(c.ID, nil, nil)
		n.work()
	}
}

// breakOff gives up a round that has not begun.
func (k *worker) breakOff() {
	if k.waiting {
		k.life++
		k.busy, k.waiting = false, false
	}
}

// giveUp ends everything under way: the generation is over.
func (k *worker) giveUp() {
	k.life++
	k.busy, k.waiting, k.fenced, k.releases = false, false, true, nil
}

func (k *worker) recover(n *node, do tiers.Recover) {
	k.giveUp()
	k.fenced, k.parked, k.until = false, false, n.w.ctrl.cfg.Job.Clocks
	k.generation, k.begun = do.Generation, do.Cut
	k.splits = map[ps.Split]ps.Clock{}
	for _, s := range do.Splits {
		k.splits[s] = do.Cut + 1
	}
	n.work()
}

// work begins the lowest clock among the splits.
func (n *node) work() {
	k := &n.worker
	if k.busy || k.parked || k.fenced || n.dead || n.route.Version == 0 {
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
	n.read()
}

// each does f at the owner of every partition, in random order, until it is done there, and then then.
func (n *node) each(f func(p ps.Partition, owner *node) reply, done func(p ps.Partition, r reply), then func()) {
	left, life, g := n.w.schema.Partitions, n.worker.life, n.worker.generation
	for _, i := range n.w.rng.Perm(n.w.schema.Partitions) {
		p := ps.Partition(i)
		at := n.route.Owner[p]
		var try func()
		try = func() {
			if n.worker.life != life {
				return
			}
			n.ask(at, func(owner *node) reply { return owner.serve(g, p, f) }, func(r reply) {
				if n.worker.life != life {
					return
				}
				switch r.code {
				case ok:
					if done != nil {
						done(p, r)
					}
					if left--; left == 0 {
						then()
					}
					return
				case moved:
					at = r.to
				case stale:
					n.worker.giveUp()
					return
				case fenced:
					n.w.reach("fenced", n)
					n.exit()
					return
				case refused:
					n.w.failf("%s clock %d: %s refuses a request for partition %d", n.id, n.worker.clock, at, p)
				default:
					at = n.route.Owner[p]
				}
				n.soon(try)
			})
		}
		try()
	}
}

// serve does a request of the data plane if the partition is served here.
func (n *node) serve(g ps.Generation, p ps.Partition, f func(ps.Partition, *node) reply) reply {
	switch {
	case n.generation > g:
		return reply{code: stale}
	case n.generation < g || n.suspended || n.leaving[p]:
		return reply{code: retry}
	case n.shards[p] == nil:
		if a := n.arriving[p]; a != nil && a.shard != nil {
			return reply{code: retry}
		}
		if to := n.gone[p]; to != "" {
			return reply{code: moved, to: to}
		}
		return reply{code: retry}
	}
	return f(p, n)
}

func (n *node) read() {
	k := &n.worker
	clock, group := k.clock, k.group
	rows := map[ps.Key][]float32{}
	n.each(func(p ps.Partition, owner *node) reply {
		s := owner.shards[p]
		if !s.CanRead(clock) {
			return reply{code: retry}
		}
		read := map[ps.Key][]float32{}
		for _, key := range n.w.keys[p] {
			read[key] = make([]float32, n.w.schema.Cols(key))
			s.Read(key, read[key])
		}
		return reply{rows: read}
	}, func(p ps.Partition, r reply) {
		for _, key := range n.w.keys[p] {
			n.w.checkRead(n, clock, group, key, r.rows[key])
			rows[key] = r.rows[key]
		}
	}, func() {
		k.waiting = false
		k.begun = max(k.begun, clock)
		n.w.reach("begun", n)
		life := k.life
		n.w.after(n.w.delay(100*time.Millisecond)+n.slow, func() {
			if k.life == life && !n.dead {
				n.contribute(rows)
			}
		})
	})
}

func (n *node) contribute(rows map[ps.Key][]float32) {
	k := &n.worker
	k.sequence++
	inc, seq, clock, group := k.incarnation, k.sequence, k.clock, slices.Clone(k.group)
	sums := n.w.sums(clock, group, rows)
	stage := func(p ps.Partition, owner *node) reply {
		_, err := owner.shards[p].Stage(&ps.Contribution{Incarnation: inc, Sequence: seq, Clock: clock, Splits: group, Updates: sums[p]})
		return n.outcome(owner, err)
	}
	commit := func(p ps.Partition, owner *node) reply {
		_, err := owner.shards[p].Commit(inc, seq)
		if errors.Is(err, ps.ErrNotStaged) { // its owner was replaced
			if r := stage(p, owner); r.code != ok {
				return r
			}
			if _, err = owner.shards[p].Commit(inc, seq); errors.Is(err, ps.ErrNotStaged) {
				err = nil // the cut that it came from holds it
			}
		}
		owner.offerCuts()
		return n.outcome(owner, err)
	}
	n.each(stage, nil, func() {
		n.w.reach("staged", n)
		n.each(commit, func(ps.Partition, reply) { n.w.reach("committed one", n) }, func() { n.committed(clock, group) })
	})
}

func (n *node) outcome(owner *node, err error) reply {
	switch {
	case err == nil:
		return reply{}
	case errors.Is(err, ps.ErrFenced):
		return reply{code: fenced}
	}
	if n.w.trace != nil {
		n.w.trace("%s at %s: %v", n.id, owner.id, err)
	}
	return reply{code: refused}
}

func (n *node) committed(clock ps.Clock, group []ps.Split) {
	k := &n.worker
	k.busy, k.group = false, nil
	stats := tiers.Progress{Generation: k.generation, Clock: clock}
	for _, s := range group {
		k.splits[s] = clock + 1
		stats.Splits = append(stats.Splits, tiers.SplitStats{Split: s, Examples: 1, Loss: 1, Work: 1})
	}
	if n.w.seconds != nil {
		stats.Seconds = n.w.seconds(n, len(group))
	}
	n.w.reach("reporting", n)
	if n.dead {
		return
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
		n.answer(r.id, nil, out)
	}
	k.releases = left
}
