package elasticity

import (
	"errors"
	"slices"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/client"
	"github.com/tierml/tierml/tiers"
	"github.com/tierml/tierml/tiers/agent"
)

// worker carries out the agent's rounds. Under BSP rounds follow one another. With staleness, as in tiers/node, one round computes while
// the previous one is being sent to the servers and rows of the next one are read (ahead_test.go).
type worker struct {
	sequence uint64
	round    *round        // the newest one
	cache    *client.Cache // nil under BSP
	ahead    *ahead        // a read for a later round; nil = none
}

// round is one clock of a group of splits.
type round struct {
	*agent.Round
	sequence uint64
	rows     map[ps.Key][]float32
	ready    func() // computed, to be sent after the previous one; nil = not yet
}

func newWorker(schema *ps.Schema) (k worker) {
	if schema.Staleness > 0 {
		k.cache = client.NewCache(schema, client.CacheBytes)
	}
	return k
}

// work begins a round if it is time.
func (n *node) work() {
	k := &n.worker
	if k.cache == nil && n.agent.Sending != nil || n.dead || n.route.Version == 0 {
		return
	}
	chosen := n.agent.Choose()
	if chosen == nil {
		return
	}
	if k.round = (&round{Round: chosen}); k.cache == nil {
		n.read(k.round)
	} else {
		n.readCached(k.round)
	}
}

// errand is an operation at the owners of partitions.
type errand struct {
	generation ps.Generation
	parts      []ps.Partition
	over       func() bool // no caller waits for it any more
	do         func(p ps.Partition, owner *node) reply
	done       func(p ps.Partition, r reply)
	stale      func() // the generation has ended
	then       func()
}

// everywhere is an errand of a round at the owners of all partitions.
func (n *node) everywhere(r *round, do func(p ps.Partition, owner *node) reply, done func(p ps.Partition, r reply), then func()) {
	all := make([]ps.Partition, n.w.schema.Partitions)
	for i := range all {
		all[i] = ps.Partition(i)
	}
	n.each(errand{generation: r.Generation, parts: all, over: func() bool { return r.Dropped }, do: do, done: done, stale: n.agent.GiveUp, then: then})
}

// each does an errand at the owner of every partition, in random order, until it is done there, and then calls done.
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

// ownerOf returns the server of a partition, as far as this node knows; none between generations.
func (n *node) ownerOf(p ps.Partition) ps.ServerID {
	if int(p) < len(n.route.Owner) {
		return n.route.Owner[p]
	}
	return ""
}

// serve handles a request of the data plane if the partition is served here.
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

// rowsFor returns what an owner answers to a read of a partition's rows for a clock.
func (n *node) rowsFor(clock ps.Clock) func(ps.Partition, *node) reply {
	reader := n.agent.Incarnation
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
	n.everywhere(r, n.rowsFor(r.Clock), func(p ps.Partition, answer reply) {
		for _, key := range n.w.keys[p] {
			rows[key] = answer.rows[key]
		}
	}, func() {
		if n.w.reading == nil {
			n.begin(r, rows)
			return
		}
		n.w.after(n.w.reading(n), func() {
			if !r.Dropped && !n.dead {
				n.begin(r, rows)
			}
		})
	})
}

// begin computes a round whose rows have arrived.
func (n *node) begin(r *round, rows map[ps.Key][]float32) {
	for _, key := range slices.Concat(n.w.keys...) {
		n.w.checkRead(n, r.Clock, r.Splits, key, rows[key])
	}
	r.rows = rows
	n.agent.Begin(r.Round)
	n.w.reach("begun", n)
	computing := n.w.delay(100*time.Millisecond) + n.slow
	if n.w.computing != nil {
		computing += n.w.computing(n)
	}
	n.w.after(computing, func() {
		if r.Dropped || n.dead {
			return
		}
		r.ready = func() { n.contribute(r) }
		if n.agent.Sending == nil {
			r.ready()
		}
	})
	n.readAhead(r, computing)
}

// contribute sends a computed round.
func (n *node) contribute(r *round) {
	k := &n.worker
	n.agent.Computed(r.Round)
	k.sequence++
	r.sequence = k.sequence
	inc, sums := n.agent.Incarnation, n.w.sums(r.Clock, r.Splits, r.rows)
	n.ownWork(r, sums)
	stage := func(p ps.Partition, owner *node) reply {
		_, err := owner.shards[p].Stage(&ps.Contribution{Incarnation: inc, Sequence: r.sequence, Clock: r.Clock, Splits: r.Splits, Updates: sums[p]})
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
		if r.Dropped {
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
	stats := tiers.Progress{Generation: r.Generation, Clock: r.Clock}
	for _, s := range r.Splits {
		stats.Splits = append(stats.Splits, tiers.SplitStats{Split: s, Examples: 1, Loss: 1, Work: 1})
	}
	if n.w.seconds != nil {
		stats.Seconds = n.w.seconds(n, len(r.Splits))
	}
	n.w.reach("reporting", n)
	if n.dead {
		return
	}
	n.agent.Counted(r.Round, stats)
	if n.agent.Round != nil && k.round.ready != nil {
		k.round.ready()
	}
	n.work()
}
