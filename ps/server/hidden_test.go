package server_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/ps/client"
	"github.com/tierml/tierml/ps/server"
)

// BenchmarkMoveAll measures what a move of all partitions at once adds to the clocks of two servers and four workers, each of which reads
// and changes a quarter of the rows and computes for a while. Extra is by how much the longest clock exceeds the usual one.
func BenchmarkMoveAll(b *testing.B) {
	for _, megabytes := range []int{3, 128} {
		for name, way := range map[string]server.Move{"atOnce": {}, "window": {Window: true}, "faultIn": {Window: true, FaultIn: true}} {
			b.Run(fmt.Sprintf("%dMB/%s", megabytes, name), func(b *testing.B) {
				m := newMover(b, megabytes<<20, time.Second)
				for b.Loop() {
					m.moveAll(b, way)
				}
				m.end()
			})
		}
	}
}

// mover is a job whose partitions swap places.
type mover struct {
	*cluster
	running sync.WaitGroup
	mu      sync.Mutex
	done    []time.Time  // Index: clock - 1
	last    atomic.Int64 // the clock to end with
}

func newMover(t testing.TB, bytes int, computing time.Duration) *mover {
	const workers = 4
	schema := benchSchema(false, bytes)
	schema.Splits = workers
	m := &mover{cluster: newClusterOf(t, schema, nil, 1<<20, "a", "b", "r")}
	m.ctx = t.Context() // however slow the host is
	keys := allKeys(&schema)
	left := map[int]int{}
	for w := range workers {
		cl, part := m.client(""), keys[w*len(keys)/workers:(w+1)*len(keys)/workers]
		sums := benchSums(&schema, part)
		m.running.Go(func() {
			var rows client.Rows
			for clock := ps.Clock(1); ; clock++ {
				if err := cl.Read(m.ctx, 1, clock, part, &rows); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(computing)
				if err := cl.Contribute(m.ctx, 1, ps.Incarnation(w+1), uint64(clock), clock, []ps.Split{ps.Split(w)}, sums); err != nil {
					t.Error(err)
					return
				}
				m.mu.Lock()
				if left[int(clock)]++; left[int(clock)] == workers {
					m.done = append(m.done, time.Now())
				}
				m.mu.Unlock()
				if clock == ps.Clock(m.last.Load()) {
					return
				}
			}
		})
	}
	return m
}

func (m *mover) end() {
	m.last.Store(int64(len(m.clocks()) + 3))
	m.running.Wait()
}

func (m *mover) clocks() []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.done)
}

func (m *mover) wait(clocks int) {
	for n := len(m.clocks()) + clocks; len(m.clocks()) < n; {
		time.Sleep(time.Millisecond)
	}
}

func gaps(times []time.Time) (out []time.Duration) {
	for i := 1; i < len(times); i++ {
		out = append(out, times[i].Sub(times[i-1]))
	}
	return out
}

// moveAll makes all partitions swap places, and reports the effect on clocks.
func (m *mover) moveAll(b *testing.B, way server.Move) {
	m.wait(8)
	before := m.clocks()
	usual := slices.Sorted(slices.Values(gaps(before[max(0, len(before)-7):])))
	began := time.Now()
	var moves sync.WaitGroup
	took := make([]ps.Moved, len(m.route.Owner))
	for p, from := range m.route.Owner {
		to := ps.ServerID("a")
		if from == "a" {
			to = "b"
		}
		moves.Go(func() {
			var err error
			do := way
			do.Partition, do.To, do.Address = ps.Partition(p), to, m.peers[to]
			if took[p], err = m.nodes[from].MoveOut(m.ctx, do); err != nil {
				b.Error(err)
			}
		})
		m.route.Owner[p] = to
	}
	moves.Wait()
	all := time.Since(began)
	var sum ps.Moved
	for _, t := range took {
		sum.Bytes += t.Bytes
		sum.Seconds += t.Seconds
		sum.Waited += t.Waited
	}
	m.announce()
	m.wait(2)
	after := gaps(m.clocks()[len(before)-1:])
	extra, longest := time.Duration(0), time.Duration(0)
	for _, gap := range after {
		extra += gap - usual[len(usual)/2]
		longest = max(longest, gap-usual[len(usual)/2])
	}
	b.Logf("usual %v; moves %v, %+v; %d clocks %v; longest +%v, all +%v", usual[len(usual)/2], all, sum, len(after), after, longest, extra)
}
