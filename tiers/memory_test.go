package tiers

import (
	"testing"

	"github.com/tierml/tierml/ps"
)

// The contract, Data and memory: owner = state + undo layer + pending (+ slots), backup = two cuts; and beside it what is staged.
func TestReliableMemory(t *testing.T) {
	add := ps.Table{Name: "x", Rows: 1000, Cols: 94} // 400 bytes a row with its overhead
	for _, c := range []struct {
		what     string
		schema   ps.Schema
		reliable int
		want     Memory
	}{
		{"BSP, one machine", ps.Schema{Tables: []ps.Table{add}, Partitions: 8}, 1,
			Memory{State: 400_000, Share: 1, Rows: 400_000, Undo: 400_000, Pending: 400_000, Staged: 400_000, Cuts: 800_000, Worker: 1_200_000}},
		{"deterministic: sums of 64 bits", ps.Schema{Tables: []ps.Table{add}, Partitions: 8, Deterministic: true}, 1,
			Memory{State: 400_000, Share: 1, Rows: 400_000, Undo: 400_000, Pending: 776_000, Staged: 776_000, Cuts: 800_000, Worker: 1_576_000}},
		{"SSP: a sum for each open clock", ps.Schema{Tables: []ps.Table{add}, Partitions: 8, Staleness: 3}, 1,
			Memory{State: 400_000, Share: 1, Rows: 400_000, Undo: 400_000, Pending: 1_600_000, Staged: 400_000, Cuts: 800_000, Worker: 1_200_000}},
		{"three machines: one has 3 of 8 partitions", ps.Schema{Tables: []ps.Table{add}, Partitions: 8}, 3,
			Memory{State: 400_000, Share: 0.375, Rows: 150_000, Undo: 150_000, Pending: 150_000, Staged: 150_000, Cuts: 300_000, Worker: 1_200_000}},
		{"sparse tables are not counted", ps.Schema{Tables: []ps.Table{{Name: "s", Rows: 1 << 40, Cols: 10, Sparse: true}}, Partitions: 8}, 1,
			Memory{Share: 1}},
	} {
		if got := ReliableMemory(&c.schema, c.reliable); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
	momentum := ps.Table{Name: "m", Rows: 10, Cols: 4, Rule: ps.Rule{Name: ps.SGD, Rate: 1, Momentum: 0.5}}
	schema := ps.Schema{Tables: []ps.Table{momentum}, Partitions: 1}
	if got := ReliableMemory(&schema, 1); got.State != 10*int64(4*momentum.Width()+rowOverhead) {
		t.Errorf("slots: %+v", got)
	}
}

func TestMemoryOfAWorkerAndAServer(t *testing.T) {
	schema := ps.Schema{Tables: []ps.Table{{Rows: 1000, Cols: 94}, {Rows: 1000, Cols: 94}}, Partitions: 8, Staleness: 3}
	if got := WorkerMemory(&schema, nil); got != 2_400_000 {
		t.Errorf("a worker that reads everything: %d bytes", got)
	}
	if got := WorkerMemory(&schema, []uint64{0, 1000}); got != 1_200_000 {
		t.Errorf("a worker that reads one table: %d bytes", got)
	}
	if got := ServingMemory(&schema, []uint64{0, 1000}, 4); got != 400_000 { // rows, undo, sums and a contribution of 2 of 8 partitions
		t.Errorf("a server: %d bytes", got)
	}
	if usable := UsableMemory(MemoryFor(85<<20) >> 20); usable > 85<<20 || usable < 84<<20 {
		t.Errorf("of the memory for 85 MiB %d bytes may be used", usable)
	}
}
