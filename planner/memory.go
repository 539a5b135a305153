package planner

import (
	"fmt"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Memory is what the reliable machines need to continue alone, and what they have. The zero value means unknown.
type Memory struct {
	Need   tiers.Memory
	Usable int64 // of each reliable machine; 0 = the catalog does not say
	Splits int64 // of all training data, which each reliable machine keeps in memory if it fits, else on its disk
	Sparse bool  // there are tables whose size is not known in advance
	Least  int64 // that a worker next to the server needs, whatever the data
}

// AdmitMemory reports whether the reliable tier alone can continue: a job whose model and cuts, and what its worker certainly reads (least,
// Index: TableID), exceed its memory is refused, with the figures, and so is one with tables that no server can have. For jobs without
// reliable machines, AdmitMachines does this.
func AdmitMemory(job *config.Job, reliable Fleet, schema *ps.Schema, least []uint64) (Memory, error) {
	if err := schema.Check(); err != nil {
		return Memory{}, job.Fault("train", "the tables of "+job.Train.App+": "+err.Error(), "choose a smaller model, or rows of fewer columns")
	}
	if reliable.Count == 0 {
		return Memory{}, nil
	}
	m := Memory{
		Need: tiers.ReliableMemory(schema, reliable.Count), Sparse: schema.HasSparse(),
		Usable: tiers.UsableMemory(reliable.Type.MemoryMiB), Least: tiers.WorkerMemory(schema, least),
	}
	if m.Usable == 0 || m.Need.Total()+m.Least <= m.Usable {
		return m, nil
	}
	n := m.Need
	problem := fmt.Sprintf("the reliable machines must be able to go on alone, and %s of %s cannot: each needs up to %s (state %s, undo %s, pending sums %s, contributions %s, two cuts %s%s) and has %s for it",
		words.Number(reliable.Count, "machine"), reliable.Type.Name, Bytes(n.Total()+m.Least), Bytes(n.Rows), Bytes(n.Undo), Bytes(n.Pending), Bytes(n.Staged), Bytes(n.Cuts), m.working(), Bytes(m.Usable))
	instead := "choose a reliable.type with more memory"
	for count := reliable.Count + 1; count <= schema.Partitions; count++ {
		if tiers.ReliableMemory(schema, count).Total()+m.Least <= m.Usable {
			instead = fmt.Sprintf("write count: %d, or a type with more memory", count)
			break
		}
	}
	return m, job.Fault("reliable.count", problem, instead)
}

// working returns what its worker needs, if it is much.
func (m Memory) working() string {
	if m.Least*100 < m.Need.Total() {
		return ""
	}
	return ", a worker " + Bytes(m.Least)
}

// line describes the memory needed and the memory available.
func (m Memory) line() (value, detail string) {
	value = Bytes(m.Need.Total())
	detail = "of unknown memory, on each reliable machine"
	if m.Usable > 0 {
		detail = fmt.Sprintf("of %s on each reliable machine: model %s, with undo, pending sums, contributions and cuts",
			Bytes(m.Usable), Bytes(m.Need.State))
	}
	if m.Sparse {
		detail += "; sparse tables beside it"
	}
	if m.Usable > 0 && m.Need.Total()+m.Need.Worker > m.Usable {
		detail += fmt.Sprintf("; a worker that touches every parameter takes %s more, which does not fit", Bytes(m.Need.Worker))
	}
	if m.Usable > 0 && m.Need.Total()+m.Splits > m.Usable {
		detail += fmt.Sprintf("; of %s of data, the rest is on disk", Bytes(m.Splits))
	}
	return value, detail
}

// Bytes formats an amount of memory in the units of the catalogs, powers of 2.
func Bytes(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GB", 1 << 30}, {"MB", 1 << 20}, {"kB", 1 << 10}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
