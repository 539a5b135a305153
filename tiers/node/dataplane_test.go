package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// dataPlane stands in for all servers of a job: one set of partitions in memory.
type dataPlane struct {
	schema *ps.Schema
	delay  time.Duration // of answers, and between the partitions of a contribution; 0 = all happens at once

	mu          sync.Mutex
	changed     chan struct{}
	shards      []*ps.Shard
	generation  ps.Generation
	suspended   bool
	fenced      map[ps.Incarnation]bool
	contributed map[string]int // by split@clock
}

func newDataPlane(schema *ps.Schema) *dataPlane {
	d := &dataPlane{schema: schema, changed: make(chan struct{}), fenced: map[ps.Incarnation]bool{}, contributed: map[string]int{}}
	for p := range ps.Partition(schema.Partitions) {
		d.shards = append(d.shards, ps.NewShard(schema, p))
	}
	return d
}

func (d *dataPlane) present() ps.Generation {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.generation
}

func (d *dataPlane) folded() ps.Clock {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shards[0].Folded()
}

// counted returns how often each split@clock of this generation counted.
func (d *dataPlane) counted() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.contributed)
}

// when runs do once ready reports true, under the lock.
func (d *dataPlane) when(ctx context.Context, g ps.Generation, ready func() bool, do func() error) error {
	for {
		d.mu.Lock()
		switch {
		case g < d.generation:
			d.mu.Unlock()
			return ErrStale
		case g == d.generation && !d.suspended && ready():
			defer d.mu.Unlock()
			return do()
		}
		changed := d.changed
		d.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (d *dataPlane) change(f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.changed)
	d.changed = make(chan struct{})
	return f()
}

func (d *dataPlane) each(f func(*ps.Shard) error) error {
	for _, s := range d.shards {
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}

type fakeClient struct {
	*dataPlane
	reader ps.Incarnation
}

func (fakeClient) SetRoute(ps.Generation, ps.Route, map[ps.ServerID]string) {}
func (fakeClient) Close() error                                             { return nil }
func (fakeClient) Traffic() (in, out int64)                                 { return 5, 6 }

func (d fakeClient) Read(ctx context.Context, g ps.Generation, c ps.Clock, keys []ps.Key, dst []float32, stamps []ps.Stamp) error {
	ready := func() bool {
		return !slices.ContainsFunc(d.shards, func(s *ps.Shard) bool { return !s.CanRead(c) })
	}
	err := d.when(ctx, g, ready, func() error {
		for _, k := range keys {
			n := d.schema.Cols(k)
			d.shards[d.schema.PartitionOf(k)].Read(k, dst[:n])
			dst = dst[n:]
		}
		for p := range stamps {
			stamps[p] = d.shards[p].Stamp(d.reader)
		}
		return nil
	})
	if err == nil {
		err = d.travel(ctx)
	}
	return err
}

func (d *dataPlane) travel(ctx context.Context) error {
	if d.delay == 0 {
		return nil
	}
	select {
	case <-time.After(d.delay):
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

func (d fakeClient) Contribute(ctx context.Context, g ps.Generation, inc ps.Incarnation, sequence uint64, c ps.Clock,
	splits []ps.Split, updates []ps.Sums) error {
	err := d.when(ctx, g, func() bool { return true }, func() error {
		if d.fenced[inc] {
			return ErrFenced
		}
		for p, s := range d.shards {
			if _, err := s.Stage(&ps.Contribution{Incarnation: inc, Sequence: sequence, Clock: c, Splits: splits, Updates: updates[p]}); err != nil {
				return err
			}
		}
		return nil
	})
	for p := 0; p < len(d.shards) && err == nil; p++ {
		if err = d.travel(ctx); err == nil {
			err = d.when(ctx, g, func() bool { return true }, func() error {
				_, err := d.shards[p].Commit(inc, sequence)
				return err
			})
			_ = d.change(func() error { return nil })
		}
	}
	if err != nil {
		return err
	}
	return d.when(ctx, g, func() bool { return true }, func() error {
		for _, s := range splits {
			d.contributed[fmt.Sprint(s, "@", c)]++
		}
		return nil
	})
}

// fakeServer is one machine's server; all share their state.
type fakeServer struct {
	config ServerConfig
	plane  *dataPlane
	moving chan struct{} // MoveOut waits for it
}

func (s *fakeServer) Serve(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
func (s *fakeServer) SetRoute(ps.Generation, ps.Route, map[ps.ServerID]string) error { return nil }
func (s *fakeServer) Own(tiers.Own) error                                            { return nil }
func (s *fakeServer) BackUp(tiers.BackUp) error                                      { return nil }
func (s *fakeServer) NameCut(cut ps.Clock) error {
	return s.plane.change(func() error {
		return s.plane.each(func(shard *ps.Shard) error { return shard.NameCut(cut) })
	})
}
func (s *fakeServer) UnnameCut(ps.Clock) error { return nil }
func (s *fakeServer) CommitCut(cut ps.Clock) error {
	return s.plane.change(func() error {
		return s.plane.each(func(shard *ps.Shard) error { return shard.CommitCut(cut) })
	})
}
func (s *fakeServer) MoveOut(ctx context.Context, _ tiers.MoveOut) (tiers.Moved, error) {
	select {
	case <-s.moving:
		return tiers.Moved{}, ps.ErrBusy
	case <-ctx.Done():
		return tiers.Moved{}, ctx.Err()
	}
}
func (s *fakeServer) HurryMoves()                            {}
func (s *fakeServer) Promote(ps.Clock, []ps.Partition) error { return nil }
func (s *fakeServer) FenceWorker(inc ps.Incarnation) ([]tiers.Standing, error) {
	s.plane.mu.Lock()
	defer s.plane.mu.Unlock()
	s.plane.fenced[inc] = true
	return nil, nil
}
func (s *fakeServer) SettleWorker(ps.Incarnation, uint64, bool) error { return nil }
func (s *fakeServer) FenceGeneration(g ps.Generation) (tiers.Holdings, error) {
	return tiers.Holdings{}, s.plane.change(func() error {
		if g > s.plane.generation {
			s.plane.generation, s.plane.suspended = g, true
		}
		return nil
	})
}
func (s *fakeServer) SaveCut(_ context.Context, _ tiers.SaveCut, held func()) ([]tiers.SavedPart, error) {
	held()
	return nil, errors.New("nothing is saved here")
}
func (s *fakeServer) TakeStock() tiers.Stock { return tiers.Stock{} }
func (s *fakeServer) Recover(do tiers.Recover) error {
	return s.plane.change(func() error {
		if !s.plane.suspended {
			return nil // another machine was notified first
		}
		s.plane.suspended = false
		clear(s.plane.contributed)
		return s.plane.each(func(shard *ps.Shard) error { return shard.Rollback(do.Cut) })
	})
}
func (s *fakeServer) Stats() tiers.Heartbeat {
	s.plane.mu.Lock()
	defer s.plane.mu.Unlock()
	return tiers.Heartbeat{Folded: s.plane.shards[0].Folded(), Owned: len(s.plane.shards)}
}
