package elasticity

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/client"
	"github.com/tierml/tierml/tiers"
)

// worker is the node's part that computes on splits: the lowest clock first. Under BSP a round follows the other. With staleness, as in
// tiers/node, one round computes while the one before is on its way to the servers and rows of the one after are read (ahead_test.go).
type worker struct {
	generation  ps.Generation
	incarnation ps.Incarnation
	sequence    uint64
	splits      map[ps.Split]ps.Clock // first clock not computed
	taken       map[ps.Split]bool     // over from another worker, and not begun since
	until       ps.Clock
	parked      bool
	fenced      bool     // its generation is over: waits for Recover
	begun       ps.Clock // highest clock begun
	round       *round   // waits for its rows, computes, or waits for the one before to be sent; nil = none
	sending     *round   // computed, and on its way to the servers; nil = none
	releases    []release

	cache *client.Cache // nil under BSP
	ahead *ahead        // a read for a round that has not begun; nil = none
}

// round is one clock of a group of splits.
type round struct {
	generation ps.Generation
	clock      ps.Clock
	group      []ps.Split
	taken      bool // some split is new here
	computing  bool // begun: the rows are here
	dropped    bool // what it does does not count
	sequence   uint64
	rows       map[ps.Key][]float32
	ready      func() // computed, and to be sent when the one before is; nil = not yet
}

type release struct {
	id     uint64
	splits []ps.Split
}

func newWorker(schema *ps.Schema) worker {
	k := worker{splits: map[ps.Split]ps.Clock{}, taken: map[ps.Split]bool{}}
	if schema.Staleness > 0 {
		k.cache = client.NewCache(schema, client.CacheBytes)
	}
	return k
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
			k.splits[s.Split], k.taken[s.Split] = s.Clock, true
			if k.round != nil && s.Clock < k.round.clock {
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
		if k.round != nil && slices.ContainsFunc(do.Splits, func(s ps.Split) bool { return slices.Contains(k.round.group, s) }) {
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
		if k.round != nil && k.round.clock > do.Until {
			k.breakOff()
		}
		n.answer(c.ID, nil, nil)
		n.work()
	}
}

// breakOff gives up a round that has not begun.
func (k *worker) breakOff() {
	if k.round != nil && !k.round.computing {
		k.round.dropped = true
		k.round = nil
	}
}

// busy reports whether a split's work has begun and does not count yet.
func (k *worker) busy(s ps.Split) bool {
	return k.sending != nil && slices.Contains(k.sending.group, s) ||
		k.round != nil && k.round.computing && slices.Contains(k.round.group, s)
}

// giveUp ends everything under way: the generation is over.
func (k *worker) giveUp() {
	for _, r := range []*round{k.round, k.sending} {
		if r != nil {
			r.dropped = true
		}
	}
	k.round, k.sending, k.fenced, k.releases = nil, nil, true, nil
}

func (k *worker) recover(n *node, do tiers.Recover) {
	k.giveUp()
	k.fenced, k.parked, k.until = false, false, n.w.ctrl.cfg.Job.Clocks
	k.generation, k.begun = do.Generation, do.Cut
	k.splits, k.taken = map[ps.Split]ps.Clock{}, map[ps.Split]bool{}
	for _, s := range do.Splits {
		k.splits[s] = do.Cut + 1
	}
	n.work()
}

// stock gives the splits that are worked on, each with its first clock that does not count yet.
func (k *worker) stock() (out []tiers.SplitAt) {
	k.releases = nil // they were asked for by the controller before
	for split, clock := range k.splits {
		if k.sending != nil && slices.Contains(k.sending.group, split) {
			clock = k.sending.clock
		}
		out = append(out, tiers.SplitAt{Split: split, Clock: clock})
	}
	return out
}

// choose gives the round of the splits that are furthest behind once a round has been computed (nil: now); nil when there is none.
func (k *worker) choose(after *round) *round {
	r := &round{generation: k.generation, clock: math.MaxInt64}
	for s, c := range k.splits {
		if after != nil && slices.Contains(after.group, s) {
			c = after.clock + 1
		}
		if c > k.until || c > r.clock || slices.ContainsFunc(k.releases, func(l release) bool { return slices.Contains(l.splits, s) }) {
			continue
		}
		if c < r.clock {
			r.clock, r.group, r.taken = c, nil, false
		}
		r.group, r.taken = append(r.group, s), r.taken || k.taken[s]
	}
	if r.group == nil {
		return nil
	}
	slices.Sort(r.group)
	return r
}

// work begins a round if it is time.
func (n *node) work() {
	k := &n.worker
	if k.round != nil || k.cache == nil && k.sending != nil || k.parked || k.fenced || n.dead || n.route.Version == 0 {
		return
	}
	if k.round = k.choose(nil); k.round == nil {
		return
	}
	if k.cache == nil {
		n.read(k.round)
	} else {
		n.readCached(k.round)
	}
}

// errand is something that is done at the owners of partitions.
type errand struct {
	generation ps.Generation
	parts      []ps.Partition
	over       func() bool // nobody waits for it any more
	do         func(p ps.Partition, owner *node) reply
	done       func(p ps.Partition, r reply)
	stale      func() // the generation is over
	then       func()
}

// everywhere is an errand of a round at the owners of all partitions.
func (n *node) everywhere(r *round, do func(p ps.Partition, owner *node) reply, done func(p ps.Partition, r reply), then func()) {
	all := make([]ps.Partition, n.w.schema.Partitions)
	for i := range all {
		all[i] = ps.Partition(i)
	}
	n.each(errand{generation: r.generation, parts: all, over: func() bool { return r.dropped }, do: do, done: done, stale: n.worker.giveUp, then: then})
}

// each does an errand at the owner of every partition, in random order, until it is done there, and then what follows.
func (n *node) each(e errand) {
	left := len(e.parts)
	for _, i := range n.w.rng.Perm(left) {
		p := e.parts[i]
		at := n.ownerOf(p)
		var try func()
		try = func() {
			if e.over() {
				return
			}
			n.ask(at, func(owner *node) reply { return owner.serve(e.generation, p, e.do) }, func(r reply) {
				if e.over() {
					return
				}
				switch r.code {
				case ok:
					if e.done != nil {
						e.done(p, r)
					}
					if left--; left == 0 {
						e.then()
					}
					return
				case moved:
					at = r.to
				case stale:
					e.stale()
					return
				case fenced:
					n.w.reach("fenced", n)
					n.exit()
					return
				case refused:
					n.w.failf("%s: %s refuses a request for partition %d", n.id, at, p)
				default:
					at = n.ownerOf(p)
				}
				n.soon(try)
			})
		}
		try()
	}
}

// ownerOf is who serves a partition, as far as is known here; nobody between generations.
func (n *node) ownerOf(p ps.Partition) ps.ServerID {
	if int(p) < len(n.route.Owner) {
		return n.route.Owner[p]
	}
	return ""
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

// rowsFor is what an owner answers to a read of a partition's rows for a clock.
func (n *node) rowsFor(clock ps.Clock) func(ps.Partition, *node) reply {
	reader := n.worker.incarnation
	return func(p ps.Partition, owner *node) reply {
		s := owner.shards[p]
		if !s.CanRead(clock) {
			return reply{code: retry}
		}
		read := map[ps.Key][]float32{}
		for _, key := range n.w.keys[p] {
			read[key] = make([]float32, n.w.schema.Cols(key))
			s.Read(key, read[key])
		}
		return reply{rows: read, stamp: s.Stamp(reader)}
	}
}

func (n *node) read(r *round) {
	rows := map[ps.Key][]float32{}
	n.everywhere(r, n.rowsFor(r.clock), func(p ps.Partition, answer reply) {
		for _, key := range n.w.keys[p] {
			rows[key] = answer.rows[key]
		}
	}, func() { n.begin(r, rows) })
}

// begin computes a round, whose rows are here.
func (n *node) begin(r *round, rows map[ps.Key][]float32) {
	k := &n.worker
	for _, key := range slices.Concat(n.w.keys...) {
		n.w.checkRead(n, r.clock, r.group, key, rows[key])
	}
	r.computing, r.rows = true, rows
	for _, s := range r.group {
		delete(k.taken, s)
	}
	k.begun = max(k.begun, r.clock)
	n.w.reach("begun", n)
	computing := n.w.delay(100*time.Millisecond) + n.slow
	n.w.after(computing, func() {
		if r.dropped || n.dead {
			return
		}
		r.ready = func() { n.contribute(r) }
		if k.sending == nil {
			r.ready()
		}
	})
	n.readAhead(r, computing)
}

// contribute sends a round that was computed.
func (n *node) contribute(r *round) {
	k := &n.worker
	k.round, k.sending = nil, r
	for _, s := range r.group {
		k.splits[s] = r.clock + 1
	}
	k.sequence++
	r.sequence = k.sequence
	inc, sums := k.incarnation, n.w.sums(r.clock, r.group, r.rows)
	n.ownWork(r, sums)
	stage := func(p ps.Partition, owner *node) reply {
		_, err := owner.shards[p].Stage(&ps.Contribution{Incarnation: inc, Sequence: r.sequence, Clock: r.clock, Splits: r.group, Updates: sums[p]})
		return n.outcome(owner, err)
	}
	commit := func(p ps.Partition, owner *node) reply {
		_, err := owner.shards[p].Commit(inc, r.sequence)
		if errors.Is(err, ps.ErrNotStaged) { // its owner was replaced
			if answer := stage(p, owner); answer.code != ok {
				return answer
			}
			if _, err = owner.shards[p].Commit(inc, r.sequence); errors.Is(err, ps.ErrNotStaged) {
				err = nil // the cut that it came from holds it
			}
		}
		owner.offerCuts()
		return n.outcome(owner, err)
	}
	n.everywhere(r, stage, nil, func() {
		n.w.reach("staged", n)
		if r.dropped {
			return
		}
		n.everywhere(r, commit, func(ps.Partition, reply) { n.w.reach("committed one", n) }, func() { n.committed(r) })
	})
	if k.cache != nil {
		n.work()
	}
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

func (n *node) committed(r *round) {
	k := &n.worker
	if k.cache != nil {
		k.cache.Counted(r.sequence)
	}
	k.sending = nil
	stats := tiers.Progress{Generation: r.generation, Clock: r.clock}
	for _, s := range r.group {
		stats.Splits = append(stats.Splits, tiers.SplitStats{Split: s, Examples: 1, Loss: 1, Work: 1})
	}
	if n.w.seconds != nil {
		stats.Seconds = n.w.seconds(n, len(r.group))
	}
	n.w.reach("reporting", n)
	if n.dead {
		return
	}
	n.report(stats)
	n.answerReleases()
	if k.round != nil && k.round.ready != nil {
		k.round.ready()
	}
	n.work()
}

func (n *node) answerReleases() {
	k := &n.worker
	var left []release
	for _, r := range k.releases {
		if slices.ContainsFunc(r.splits, k.busy) {
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
