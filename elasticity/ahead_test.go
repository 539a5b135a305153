package elasticity

import (
	"slices"
	"time"

	"github.com/tierml/tierml/ps"
)

// With staleness a worker's rows come through the cache of its client, the real one: rows of earlier clocks are used again, rows of the
// next round are read while this one computes, and the worker's own contributions are added to what is here and to what arrives without
// them. What a round then reads must satisfy the same rules as any other read: everything of its own splits, each clock once.

// ahead is a read for a later round.
type ahead struct {
	generation ps.Generation
	clock      ps.Clock
	began      uint64 // of the cache's reads; 0 = it has not been sent
	send       func()
	over       bool   // it has its rows, or no caller waits for them
	then       func() // a caller waits for it
}

// readCached gives a round its rows, and fetches those that the cache lacks.
func (n *node) readCached(r *round) {
	k := &n.worker
	if r.Taken {
		n.leave()
		k.cache.Renew()
	}
	a := k.ahead
	if a == nil || a.over || a.generation != r.Generation || a.clock != r.Clock {
		n.leave() // it may wait for work that is due now
		n.fill(r)
		return
	}
	a.then = func() {
		if !r.Dropped && !n.dead {
			n.leave()
			n.fill(r)
		}
	}
	a.send()
}

// fill reads a round's missing rows, and begins it.
func (n *node) fill(r *round) {
	k := &n.worker
	all := slices.Concat(n.w.keys...)
	begin := func() {
		cells := 0
		for _, key := range all {
			cells += n.w.schema.Cols(key)
		}
		values := make([]float32, cells)
		if !k.cache.Copy(r.Clock, all, values) {
			n.w.failf("%s: rows that were just read for clock %d are not fresh enough", n.id, r.Clock)
		}
		rows := map[ps.Key][]float32{}
		for _, key := range all {
			cols := n.w.schema.Cols(key)
			rows[key], values = values[:cols], values[cols:]
		}
		n.begin(r, rows)
	}
	k.cache.Enter(r.Generation)
	missing := k.cache.Missing(r.Clock, all, nil)
	if len(missing) == 0 {
		begin()
		return
	}
	n.fetch(r.Generation, r.Clock, missing, k.cache.Reading(), func() bool { return r.Dropped }, n.agent.GiveUp, begin)
}

// fetch reads rows into the cache. No caller waits for the rest once the fetch or its generation has ended.
func (n *node) fetch(g ps.Generation, clock ps.Clock, missing []ps.Key, began uint64, over func() bool, stale, then func()) {
	cache, stamps := n.worker.cache, make([]ps.Stamp, n.w.schema.Partitions)
	rows := map[ps.Key][]float32{}
	var parts []ps.Partition
	for p, keys := range n.w.keys {
		if slices.ContainsFunc(keys, func(k ps.Key) bool { return slices.Contains(missing, k) }) {
			parts = append(parts, ps.Partition(p))
		}
	}
	left := false
	leave := func() {
		if !left {
			left = true
			cache.Left(began)
		}
	}
	n.each(errand{generation: g, parts: parts, do: n.rowsFor(clock), over: func() bool {
		if over() {
			leave()
		}
		return left
	}, done: func(p ps.Partition, r reply) {
		stamps[p] = r.stamp
		for _, key := range n.w.keys[p] {
			rows[key] = r.rows[key]
		}
	}, stale: func() {
		leave()
		stale()
	}, then: func() {
		left = true
		var values []float32
		for _, key := range missing {
			values = append(values, rows[key]...)
		}
		if err := cache.Put(began, g, clock, missing, values, stamps); err != nil {
			n.w.failf("%s: %v", n.id, err)
		}
		then()
	}})
}

// readAhead begins to read what the round after this one will need, while this one computes.
func (n *node) readAhead(r *round, computing time.Duration) {
	k := &n.worker
	if k.cache == nil {
		return
	}
	next := n.agent.After(r.Round)
	if next == nil || next.Taken {
		return
	}
	n.leave()
	missing := k.cache.Missing(next.Clock, slices.Concat(n.w.keys...), nil)
	if len(missing) == 0 {
		return
	}
	a := &ahead{generation: next.Generation, clock: next.Clock}
	k.ahead = a
	a.send = func() {
		if a.over || a.began > 0 || n.dead {
			return
		}
		a.began = k.cache.Reading()
		end := func() {
			a.over = true
			if a.then != nil {
				a.then()
			}
		}
		n.fetch(a.generation, a.clock, missing, a.began, func() bool { return a.over }, end, end)
	}
	n.w.after(n.w.delay(computing), a.send)
}

// leave ends reading ahead.
func (n *node) leave() {
	if a := n.worker.ahead; a != nil {
		a.over = true
		n.worker.ahead = nil
	}
}

// ownWork adds a contribution that is about to be sent to the cached rows.
func (n *node) ownWork(r *round, sums []ps.Sums) {
	if n.worker.cache == nil {
		return
	}
	if err := n.worker.cache.Own(r.Generation, r.sequence, r.Clock, sums); err != nil {
		n.w.failf("%s: adding up own work: %v", n.id, err)
	}
}
