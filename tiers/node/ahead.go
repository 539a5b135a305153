package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/client"
)

// reader reads the rows of rounds. With staleness it caches them, and reads the ones missing for the next round while this one computes.
// Its methods are for the worker's loop.
//
// Invariants: at most one read is in progress, and a read ahead only fills the cache. A round takes every row from the cache, which checks
// that it is fresh enough, so reading ahead for a round that never comes does no harm.
//
// A read ahead begins as late as it safely can (early), to include more of the others' work. One for another clock than the next round's is
// cancelled: it may wait for the very work that must be done now (await).
type reader struct {
	client  Client
	space   *workspace
	cache   *client.Cache // nil under BSP, where no earlier read is fresh enough for the next clock
	late    bool          // nothing is read ahead or reused
	missing []ps.Key
	values  []float32
	stamps  []ps.Stamp
	next    rowIndex // of the next round
	asked   []ps.Key
	ahead   *ahead // nil = none
	// took is how long a read takes, by the latest ones; the longest counts for some time.
	took   time.Duration
	waited atomic.Int64 // nanoseconds that rounds have waited for rows
}

// ahead is a read for a round that has not begun.
type ahead struct {
	generation ps.Generation
	clock      ps.Clock
	cancel     context.CancelFunc
	now        chan struct{} // closed when it is waited for
	done       chan struct{} // closed when it has ended
	panicked   *panicked     // the panic that ended it, if any
}

// early is how many times the duration of a read it begins before its rows are needed: rows that are read later include more of the others'
// work.
const early = 3

func newReader(from Client, space *workspace) *reader {
	r, schema := &reader{client: from, space: space}, space.schema
	if schema.Staleness > 0 {
		r.cache, r.stamps, r.next = client.NewCache(schema, client.CacheBytes), make([]ps.Stamp, schema.Partitions), newRowIndex(schema)
	}
	return r
}

// readLate makes rows be read when a clock begins, if late (apps.Late).
func (r *reader) readLate(late bool) {
	if r.late = late; late && r.cache != nil {
		r.cache.ReadLate()
	}
}

// read copies rows visible to a clock's work into dst.
func (r *reader) read(ctx context.Context, g ps.Generation, c ps.Clock, keys []ps.Key, dst []float32) error {
	began := time.Now()
	defer func() { r.waited.Add(int64(time.Since(began))) }()
	if r.cache == nil {
		return r.client.Read(ctx, g, c, keys, dst, nil)
	}
	if err := r.await(ctx, g, c); err != nil {
		return err
	}
	r.cache.Enter(g)
	r.missing = r.cache.Missing(c, keys, r.missing[:0])
	if err := r.fill(ctx, g, c); err != nil {
		return err
	}
	if !r.cache.Copy(c, keys, dst) {
		return fmt.Errorf("rows that were just read for clock %d are not fresh enough", c)
	}
	return nil
}

// await waits for the read ahead if it is for this clock, or else stops it: it may wait for the very work that must be done now.
func (r *reader) await(ctx context.Context, g ps.Generation, c ps.Clock) error {
	a := r.ahead
	if a == nil {
		return nil
	}
	if a.generation == g && a.clock == c {
		close(a.now)
		select {
		case <-a.done:
		case <-ctx.Done():
		}
	}
	r.leave()
	return context.Cause(ctx)
}

// leave ends the read ahead.
func (r *reader) leave() {
	if r.ahead != nil {
		r.ahead.cancel()
		<-r.ahead.done
		panicked := r.ahead.panicked
		if r.ahead = nil; panicked != nil {
			panic(panicked)
		}
	}
}

// begin reads the rows missing for the next round during the work of this one, whose expected duration it is given: as late as possible.
func (r *reader) begin(ctx context.Context, next *round, computing time.Duration) {
	r.leave()
	r.missing = r.cache.Missing(next.Clock, r.needs(next), r.missing[:0])
	if len(r.missing) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	a := &ahead{generation: next.Generation, clock: next.Clock, cancel: cancel, now: make(chan struct{}), done: make(chan struct{})}
	r.ahead = a
	timer := time.NewTimer(computing - early*r.took)
	go func() { // the next read, or leave, waits for it
		defer close(a.done)
		defer cancel()
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-a.now:
		case <-ctx.Done():
		}
		err := guard(func() error { return r.fill(ctx, a.generation, a.clock) })
		// The round reads what is missing itself, and meets the error again; but not a panic.
		a.panicked, _ = errors.AsType[*panicked](err)
	}()
}

// needs lists the rows of a round, each once.
func (r *reader) needs(next *round) []ps.Key {
	r.next.clear()
	for _, member := range r.space.team(next.data).members() {
		r.asked = needs(member, next.Clock, next.evaluate, r.asked[:0])
		r.next.ask(r.asked)
	}
	return r.next.number()
}

// renew clears the cache: after a split was taken over, it may lack the split's work elsewhere.
func (r *reader) renew() {
	if r.cache != nil {
		r.leave()
		r.cache.Renew()
	}
}

// own adds a contribution that is about to be sent to the cached rows.
func (r *reader) own(of *round, sequence uint64, updates []ps.Sums) error {
	if r.cache == nil {
		return nil
	}
	return r.cache.Own(of.Generation, sequence, of.Clock, updates)
}

// counted records that it counts.
func (r *reader) counted(sequence uint64) {
	if r.cache != nil {
		r.cache.Counted(sequence)
	}
}

// saved returns the number of bytes not read because they were cached, and the seconds that rounds have waited for rows.
func (r *reader) saved() (bytes int64, waited float64) {
	if r.cache != nil {
		bytes = r.cache.Saved()
	}
	return bytes, time.Duration(r.waited.Load()).Seconds()
}

// fill reads the missing rows into the cache.
func (r *reader) fill(ctx context.Context, g ps.Generation, c ps.Clock) error {
	if len(r.missing) == 0 {
		return nil
	}
	size := 0
	for _, k := range r.missing {
		size += r.cache.Cols(k)
	}
	r.values = resized(r.values, size)
	began, sent := r.cache.Reading(), time.Now()
	if err := r.client.Read(ctx, g, c, r.missing, r.values, r.stamps); err != nil {
		r.cache.Left(began)
		return err
	}
	r.took = max(time.Since(sent), 3*r.took/4)
	return r.cache.Put(began, g, c, r.missing, r.values, r.stamps)
}
