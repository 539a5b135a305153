package client

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tierml/tierml/ps"
)

// A worker with a cache never computes with a value that is older than its bound, sees each of its own contributions once, and none twice,
// in whatever order rows are requested, read ahead, answered by each server and cached, contributions are staged and committed while others
// are computed, partitions move, and cuts are made and returned to.
//
// Each split adds one to its own column of every row in every clock, so that a row shows how far each split had come.
func TestCacheKeepsTheBound(t *testing.T) {
	for _, staleness := range []ps.Clock{1, 2, 5, ps.Unbounded} {
		for _, kind := range []ps.Kind{ps.Float32, ps.Int32} {
			t.Run(fmt.Sprintf("staleness=%d,%v", staleness, kind), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { newCacheWorld(t, staleness, kind).run() })
			})
		}
	}
}

const (
	worldWorkers    = 3 // with a split each
	worldPartitions = 2
	worldRows       = 6
)

// cacheWorld is servers without a network, and workers' caches.
type cacheWorld struct {
	t          *rapid.T
	schema     *ps.Schema
	shards     []*ps.Shard
	generation ps.Generation
	named      ps.Clock // current cut; 0 = none
	workers    []*cacheWorker
	sequence   uint64
}

type cacheWorker struct {
	id      ps.Split
	cache   *Cache
	clock   ps.Clock // that it computes next
	reads   []*cacheRead
	sending *cacheSend
}

// cacheRead is a read in progress. Partitions answer one by one.
type cacheRead struct {
	began      uint64
	generation ps.Generation
	clock      ps.Clock
	keys       []ps.Key
	values     []float32
	stamps     []ps.Stamp
	answered   []bool
}

// cacheSend is a contribution in progress.
type cacheSend struct {
	sequence  uint64
	clock     ps.Clock
	sums      []ps.Sums
	staged    []bool
	committed []bool
}

func newCacheWorld(t *rapid.T, staleness ps.Clock, kind ps.Kind) *cacheWorld {
	w := &cacheWorld{t: t, schema: &ps.Schema{
		Tables: []ps.Table{{Name: "t", Kind: kind, Rows: worldRows, Cols: worldWorkers, Ranged: true,
			Sparse: rapid.Bool().Draw(t, "sparse")}},
		Partitions: worldPartitions, Splits: worldWorkers, Staleness: staleness,
	}}
	for p := range ps.Partition(worldPartitions) {
		w.shards = append(w.shards, ps.NewShard(w.schema, p))
	}
	room := rapid.SampledFrom([]int{0, 1 << 20}).Draw(t, "bytes")
	for id := range ps.Split(worldWorkers) {
		w.workers = append(w.workers, &cacheWorker{id: id, cache: NewCache(w.schema, room), clock: 1})
	}
	return w
}

func (w *cacheWorld) run() {
	read := func(ahead ps.Clock) func(*rapid.T) {
		return func(t *rapid.T) { w.read(w.worker(t), ahead) }
	}
	compute := func(t *rapid.T) { w.compute(w.worker(t)) }
	seldom := []func(*rapid.T){w.move, w.cut, w.back}
	often := []func(*rapid.T){read(0), read(1), w.answer, w.answer, w.put, compute, compute, w.stage, w.stage, w.commit, w.commit, w.counted}
	for range 500 {
		if rapid.IntRange(0, 19).Draw(w.t, "kind") == 0 {
			rapid.SampledFrom(seldom).Draw(w.t, "step")(w.t)
		} else {
			rapid.SampledFrom(often).Draw(w.t, "step")(w.t)
		}
	}
}

func (w *cacheWorld) worker(t *rapid.T) *cacheWorker {
	return w.workers[rapid.IntRange(0, worldWorkers-1).Draw(t, "worker")]
}

// needs returns the rows of a worker's clock, different in each.
func (w *cacheWorld) needs(c ps.Clock) (keys []ps.Key) {
	for row := range ps.RowID(worldRows) {
		if (uint64(row)+uint64(c))%3 != 0 {
			keys = append(keys, ps.Key{Row: row})
		}
	}
	return keys
}

// read requests what a worker's cache lacks for its clock, or the one after it.
func (w *cacheWorld) read(k *cacheWorker, ahead ps.Clock) {
	if len(k.reads) > 1 {
		return
	}
	r := &cacheRead{generation: w.generation, clock: k.clock + ahead, stamps: make([]ps.Stamp, worldPartitions), answered: make([]bool, worldPartitions)}
	k.cache.Enter(w.generation)
	r.keys = k.cache.Missing(r.clock, w.needs(r.clock), nil)
	if len(r.keys) == 0 {
		return
	}
	r.values = make([]float32, len(r.keys)*worldWorkers)
	r.began = k.cache.Reading()
	k.reads = append(k.reads, r)
}

// answer makes a partition answer, once it may.
func (w *cacheWorld) answer(t *rapid.T) {
	k, p := w.worker(t), rapid.IntRange(0, worldPartitions-1).Draw(t, "partition")
	for _, r := range k.reads {
		if shard := w.shards[p]; !r.answered[p] && r.generation == w.generation && shard.CanRead(r.clock) {
			for i, key := range r.keys {
				if int(w.schema.PartitionOf(key)) == p {
					shard.Read(key, r.values[i*worldWorkers:(i+1)*worldWorkers])
				}
			}
			r.stamps[p], r.answered[p] = shard.Stamp(ps.Incarnation(k.id+1)), true
			return
		}
	}
}

// put delivers a complete answer, or gives up one that will never be complete.
func (w *cacheWorld) put(t *rapid.T) {
	k := w.worker(t)
	for i, r := range k.reads {
		if !slices.Contains(r.answered, false) {
			if err := k.cache.Put(r.began, r.generation, r.clock, r.keys, r.values, r.stamps); err != nil {
				t.Fatal(err)
			}
		} else if r.generation != w.generation {
			k.cache.Left(r.began)
		} else {
			continue
		}
		k.reads = slices.Delete(k.reads, i, i+1)
		return
	}
}

// compute does a worker's clock if its rows have arrived.
func (w *cacheWorld) compute(k *cacheWorker) {
	k.cache.Enter(w.generation)
	keys := w.needs(k.clock)
	if k.sending != nil || len(k.cache.Missing(k.clock, keys, nil)) > 0 {
		return
	}
	values := make([]float32, len(keys)*worldWorkers)
	if !k.cache.Copy(k.clock, keys, values) {
		w.t.Fatal("rows that are not missing are not there")
	}
	for i, key := range keys {
		for split, x := range w.row(values[i*worldWorkers : (i+1)*worldWorkers]) {
			oldest, newest := k.clock-w.schema.Staleness-1, w.workers[split].clock-1
			if ps.Split(split) == k.id {
				oldest = newest
			}
			if x < oldest || x > newest {
				w.t.Fatalf("worker %d at clock %d, staleness %d: row %d holds %d clocks of split %d, not %d to %d",
					k.id, k.clock, w.schema.Staleness, key.Row, x, split, oldest, newest)
			}
		}
	}
	w.sequence++
	s := &cacheSend{sequence: w.sequence, clock: k.clock, sums: make([]ps.Sums, worldPartitions),
		staged: make([]bool, worldPartitions), committed: make([]bool, worldPartitions)}
	for row := range ps.RowID(worldRows) {
		key, update := ps.Key{Row: row}, make([]float32, worldWorkers)
		if update[k.id] = 1; w.schema.Kind(key) == ps.Int32 {
			ps.Ints(update)[k.id] = 1
		}
		w.schema.AppendSum(&s.sums[w.schema.PartitionOf(key)], key, nil, update)
	}
	if err := k.cache.Own(w.generation, s.sequence, s.clock, s.sums); err != nil {
		w.t.Fatal(err)
	}
	k.sending = s
	k.clock++
}

func (w *cacheWorld) row(cells []float32) (clocks []ps.Clock) {
	for i, x := range cells {
		if w.schema.Tables[0].Kind == ps.Int32 {
			clocks = append(clocks, ps.Clock(ps.Ints(cells)[i]))
		} else {
			clocks = append(clocks, ps.Clock(x))
		}
	}
	return clocks
}

func (w *cacheWorld) stage(t *rapid.T) {
	k, p := w.worker(t), rapid.IntRange(0, worldPartitions-1).Draw(t, "partition")
	if s := k.sending; s != nil && !s.staged[p] {
		if _, err := w.shards[p].Stage(&ps.Contribution{Incarnation: ps.Incarnation(k.id + 1), Sequence: s.sequence, Clock: s.clock,
			Splits: []ps.Split{k.id}, Updates: s.sums[p]}); err != nil {
			t.Fatal(err)
		}
		s.staged[p] = true
	}
}

func (w *cacheWorld) commit(t *rapid.T) {
	k, p := w.worker(t), rapid.IntRange(0, worldPartitions-1).Draw(t, "partition")
	if s := k.sending; s != nil && !slices.Contains(s.staged, false) && !s.committed[p] {
		if _, err := w.shards[p].Commit(ps.Incarnation(k.id+1), s.sequence); err != nil {
			t.Fatal(err)
		}
		s.committed[p] = true
		w.endCut(t)
	}
}

func (w *cacheWorld) counted(t *rapid.T) {
	if k := w.worker(t); k.sending != nil && !slices.Contains(k.sending.committed, false) {
		k.cache.Counted(k.sending.sequence)
		k.sending = nil
	}
}

// move hands a partition to another server.
func (w *cacheWorld) move(t *rapid.T) {
	p := rapid.IntRange(0, worldPartitions-1).Draw(t, "partition")
	if w.shards[p].BeginMove() != nil {
		return // a cut is in progress
	}
	final, err := w.shards[p].FinalMove()
	if err == nil {
		w.shards[p], err = ps.NewIncoming(w.schema, ps.Partition(p)).Finish(final)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// cut names a cut at the next clock that no partition has passed.
func (w *cacheWorld) cut(t *rapid.T) {
	if w.named != 0 {
		return
	}
	for _, s := range w.shards {
		w.named = max(w.named, s.Folded()+1)
	}
	for _, s := range w.shards {
		if err := s.NameCut(w.named); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *cacheWorld) endCut(t *rapid.T) {
	if w.named == 0 || slices.ContainsFunc(w.shards, func(s *ps.Shard) bool { return !s.Passed(w.named) }) {
		return
	}
	for _, s := range w.shards {
		if err := s.CommitCut(w.named); err != nil {
			t.Fatal(err)
		}
	}
	w.named = 0
}

// back returns everything to the committed cut, as after the loss of a server.
func (w *cacheWorld) back(t *rapid.T) {
	cut, _ := w.shards[0].Base()
	if rapid.IntRange(0, 3).Draw(t, "seldom") > 0 || slices.ContainsFunc(w.shards, func(s *ps.Shard) bool { return !s.CanRollback(cut) }) {
		return
	}
	for _, s := range w.shards {
		if err := s.Rollback(cut); err != nil {
			t.Fatal(err)
		}
	}
	w.generation++
	w.named = 0
	for _, k := range w.workers {
		k.clock, k.sending = cut+1, nil
	}
}
