package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// demand is the memory that a machine of the fleet needs, at least or at most.
type demand struct {
	worker, serving int64
	as              string // role in which it serves
	either          bool   // fewer splits than machines: those that serve may have none
}

func (d demand) total() int64 {
	if d.either {
		return max(d.worker, d.serving)
	}
	return d.worker + d.serving
}

func (d demand) String() string {
	worker := fmt.Sprintf("a worker takes %s for what it reads and changes in a clock", Bytes(d.worker))
	if d.serving == 0 {
		return worker
	}
	return fmt.Sprintf("%s, and %s %s", worker, d.as, Bytes(d.serving))
}

// AdmitMachines drops pools whose machines lack the memory that the fleet certainly needs: rows that a split reads whatever the data are
// (least, by TableID), and the machine's share of the serving. It returns an error if no pool remains. What may not suffice, depending on
// the data, is a warning.
func AdmitMachines(job *config.Job, choice *Resolved, schema *ps.Schema, least []uint64) (warnings []string, err error) {
	a := admission{job: job, choice: choice, schema: schema}
	var small, doubtful []market.InstanceType
	for _, c := range choice.Pools {
		has := func(t market.InstanceType) bool { return t.Name == c.Type.Name }
		usable := tiers.UsableMemory(c.Type.MemoryMiB)
		switch {
		case usable == 0 || slices.ContainsFunc(small, has) || slices.ContainsFunc(doubtful, has):
		case a.demand(c.Type, least).total() > usable:
			small = append(small, c.Type)
		case a.demand(c.Type, nil).total() > usable:
			doubtful = append(doubtful, c.Type)
		}
	}
	tooSmall := func(t market.InstanceType) bool {
		return slices.ContainsFunc(small, func(s market.InstanceType) bool { return s.Name == t.Name })
	}
	if len(choice.Pools) > 0 && !slices.ContainsFunc(choice.Pools, func(c bidding.Candidate) bool { return !tooSmall(c.Type) }) {
		return nil, a.refusal(small, least)
	}
	choice.Pools = slices.DeleteFunc(slices.Clone(choice.Pools), func(c bidding.Candidate) bool { return tooSmall(c.Type) })
	choice.OnDemand = slices.DeleteFunc(slices.Clone(choice.OnDemand), func(o OnDemandType) bool { return tooSmall(o.Type) })
	for _, t := range small {
		warnings = append(warnings, fmt.Sprintf("%s is left out: %s, and it has %s for them", t.Name, a.demand(t, least), a.memoryOf(t)))
	}
	for _, t := range doubtful {
		warnings = append(warnings, fmt.Sprintf("%s has %s for the model: if its splits touch every parameter, %s", t.Name, a.memoryOf(t), a.demand(t, nil)))
	}
	return warnings, nil
}

// admission compares machine types with the memory that a job needs.
type admission struct {
	job    *config.Job
	choice *Resolved
	schema *ps.Schema
}

func (a *admission) memoryOf(t market.InstanceType) string {
	return Bytes(tiers.UsableMemory(t.MemoryMiB)) + " of memory"
}

// demand returns the memory that a machine of a type needs if splits read these numbers of rows of each table; nil = all.
func (a *admission) demand(t market.InstanceType, rows []uint64) demand {
	n := wanted(a.choice.Want, t)
	if n == 0 {
		return demand{} // none will be bought
	}
	d := demand{worker: tiers.WorkerMemory(a.schema, rows), either: n > a.schema.Splits}
	stages := a.job.Stages
	th := tiers.Thresholds{TwoAbove: stages.TwoAbove, ThreeAbove: stages.ThreeAbove, MostServers: tiers.ServersFor(a.schema, int64(stages.ServerBytes))}
	switch reliable := a.choice.Reliable.Count; {
	case a.job.Restarts():
		d.serve(a.schema, rows, n)
	case reliable == 0:
		d.serving, d.either = tiers.ReliableMemory(a.schema, 1).Total(), false
		d.as = "the one that serves in place of reliable machines"
	case tiers.StageFor(n, reliable, th) != tiers.Stage1:
		d.serve(a.schema, rows, th.Serving(n))
	}
	return d
}

func (d *demand) serve(s *ps.Schema, rows []uint64, servers int) {
	d.serving, d.as = tiers.ServingMemory(s, rows, servers), fmt.Sprintf("one of at most %d that serve", servers)
}

// refusal returns the error of a job that fits none of the types, with the figures of the largest.
func (a *admission) refusal(types []market.InstanceType, least []uint64) error {
	largest := slices.MaxFunc(types, func(x, y market.InstanceType) int { return int(x.MemoryMiB - y.MemoryMiB) })
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.Name
	}
	d := a.demand(largest, least)
	return a.job.Fault("resources.any_of", fmt.Sprintf("no type has the memory for this model (%s): %s, and %s has %s for them",
		strings.Join(names, ", "), d, largest.Name, a.memoryOf(largest)),
		fmt.Sprintf("admit a type with at least %s of memory, or choose a smaller model", Bytes(tiers.MemoryFor(d.total()))))
}

// wanted returns how many machines of a type a job wants; 0 if unknown.
func wanted(want bidding.Want, t market.InstanceType) int {
	if want.VCPU == 0 {
		return want.Machines
	}
	if t.VCPU < 1 {
		return 0
	}
	return (want.VCPU + t.VCPU - 1) / t.VCPU
}
