package tiers

import (
	"math"
	"testing"

	"github.com/tierml/tierml/ps"
)

// The contract, Data and memory: owner = state + undo layer + pending (+ slots), backup = two cuts; plus staged contributions.
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

// On paper: 1e11 parameters over 100 machines (lab/bench/results.md). Rows are those of a factorisation of rank 100.
func TestHundredBillionParameters(t *testing.T) {
	const machines = 100
	schema := ps.Schema{Tables: []ps.Table{{Name: "factors", Rows: 1e9, Cols: 100}}, Partitions: ps.MaxPartitions, Splits: machines}
	if err := schema.Check(); err != nil {
		t.Fatal(err)
	}
	slots := schema.Tables[0].Rows / uint64(schema.Partitions) // of a partition, on average; hashing spreads them within a percent
	if slots != 61_035 || slots > math.MaxUint32/2 {
		t.Errorf("%d slots in a partition", slots)
	}
	l := Arrange(empty(schema.Partitions, schema.Splits), fleet(machines, machines), Stage2, machines)
	for id, n := range served(l) {
		if n != 163 && n != 164 {
			t.Errorf("%s serves %d partitions", id, n)
		}
	}
	if n := len(served(l)); n != machines {
		t.Errorf("%d machines serve", n)
	}
	gigabytes := func(bytes int64) float64 { return math.Round(float64(bytes)/1e8) / 10 }
	m := ReliableMemory(&schema, machines)
	touched := []uint64{1e7} // a worker's rows in a clock: one of a hundred
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"rows of a server", gigabytes(m.Rows), 4.2}, {"a server", gigabytes(ServingMemory(&schema, nil, machines)), 17},
		{"a backup", gigabytes(m.Cuts), 8.5}, {"a worker", gigabytes(WorkerMemory(&schema, touched)), 12.7},
	} {
		if c.got != c.want {
			t.Errorf("%s: %.1f GB, want %.1f", c.what, c.got, c.want)
		}
	}
	const link = 1.25e9 // bytes per second: 10 Gbit
	read := float64(touched[0]) * (4*100 + 8)
	if seconds := math.Round(read/link*10) / 10; seconds != 3.3 {
		t.Errorf("a clock's rows take %v s to a worker, and its sums as long back", seconds)
	}
	if frame := read / machines; frame > 63<<20 {
		t.Errorf("a request to a server has %.0f bytes, more than a frame", frame)
	}
	if cut := math.Round(float64(m.Rows)/link*10) / 10; cut != 3.4 {
		t.Errorf("a cut of all rows takes %v s", cut)
	}
}
