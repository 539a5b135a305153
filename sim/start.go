package sim

import (
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

type instanceID = provisioner.InstanceID

// writeStart writes the lines with the run's basis for a ledger and other readers. They contain no version and no
// wall-clock time, so that equal inputs give equal journals.
func (w *world) writeStart() error {
	c := &w.cfg
	d := journal.StartDetails{
		Version: "simulated", Name: c.Name, Seed: c.Seed, Rules: c.Rules.Name(), Cloud: "simulated",
		Clock:  clock.Mapping{Market: c.Start, Wall: c.Start, Speed: c.Timing.Speed}.String(),
		Clocks: int64(c.Job.Clocks), Splits: c.Job.Splits, Partitions: c.Job.Partitions,
		Want:       journal.Want{Machines: c.Want.Machines, VCPU: c.Want.VCPU},
		Thresholds: journal.Thresholds{Stage2Ratio: c.Stages.TwoAbove, Stage3Ratio: c.Stages.ThreeAbove},
	}
	if p := c.Programs; p != nil {
		d.App, d.Clocks, d.Splits, d.Partitions = "program", int64(p.Tasks), 0, 0
		d.Program = &journal.ProgramDetails{Tasks: p.Tasks}
		if p.State {
			d.Program.SaveEvery = p.Every.Seconds()
		}
	}
	if c.Reliable.Count > 0 {
		d.Reliable = journal.Fleet{Pool: c.Reliable.Pool.String(), Count: c.Reliable.Count}
	}
	known := map[string]bool{}
	add := func(t market.InstanceType) {
		if t.Name != "" && !known[t.Name] {
			known[t.Name] = true
			d.Machines = append(d.Machines, journal.MachineType{
				Name: t.Name, VCPU: t.VCPU, MemoryMiB: t.MemoryMiB, OnDemand: t.OnDemand.String(),
				FLOPS: t.WorkRate() * c.FLOPSPerVCPU,
			})
		}
	}
	add(c.Reliable.Type)
	for _, p := range c.Pools {
		add(p.Type)
		d.Pools = append(d.Pools, p.Pool.String())
	}
	add(c.Equivalent.Type)
	details, err := journal.Pack(d)
	if err != nil {
		return err
	}
	w.record(journal.Entry{T: c.Start, Kind: journal.Start, Details: details})
	if c.Equivalent.Count == 0 {
		return w.err
	}
	_, beside := c.Undisturbed(c.Equivalent.Count, c.Equivalent.Type.WorkRate())
	plan, err := journal.Pack(journal.PlanDetails{
		Policy: c.Policy.Name(), Pools: []journal.PlanPool{},
		OnDemand: journal.OnDemandPlan{Pool: c.Equivalent.Pool.String(), Count: c.Equivalent.Count, Beside: beside.Seconds()},
	})
	if err != nil {
		return err
	}
	w.record(journal.Entry{T: c.Start, Kind: journal.Plan, Details: plan})
	return w.err
}
