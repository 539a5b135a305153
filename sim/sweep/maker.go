package sweep

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/tiers"
)

// Content is what is known about a job's work apart from its file.
type Content struct {
	Work   float64    // of all clocks or programs, in floating-point operations
	Schema *ps.Schema // nil = programs, or an unknown model
	Least  []uint64   // rows that each split reads at least, for any data; index: TableID
	Data   int64      // bytes of all splits
	// On is the type that a program was measured on, or is assumed to run on; time on demand is known for that type
	// only. Empty = all types.
	On string
	// Programs sets how long preparing programs takes; nil = unknown.
	Programs func(*sim.Programs)
}

// servers returns the most transient servers that the model justifies; 0 = half of the machines.
func (c *Content) servers(job *config.Job) int {
	if c.Schema == nil {
		return 0
	}
	return tiers.ServersFor(c.Schema, int64(job.Stages.ServerBytes))
}

// state returns the model's size, in bytes; 0 = unknown, as for sparse tables before the run.
func (c *Content) state() int64 {
	if c.Schema == nil || c.Schema.HasSparse() {
		return 0
	}
	return tiers.ReliableMemory(c.Schema, 1).State
}

// held returns the model that reliable machines are sized for: with as many rows as the declared checkpoint size holds,
// if that is larger.
func (c *Content) held(job *config.Job) *ps.Schema {
	own, declared := float64(c.state()), declaredState(job)
	if own == 0 || declared <= own {
		return c.Schema
	}
	larger := *c.Schema
	larger.Tables = slices.Clone(larger.Tables)
	for i := range larger.Tables {
		larger.Tables[i].Rows = uint64(float64(larger.Tables[i].Rows) * declared / own)
	}
	return &larger
}

// Maker makes jobs for plan, dry run, auto and run. Jobs of two policies differ only in what By sets.
type Maker struct {
	Job     *config.Job
	Offers  []planner.Offer
	Catalog *market.Catalog
	Content
	Evictions Evictions
	// Adjust changes each simulation in the same way, for example by measurements on this computer; nil = no change.
	Adjust func(*sim.Config) error
}

// Made is a job made for one policy.
type Made struct {
	Job      *config.Job // with all choices made
	Choice   planner.Resolved
	Sizing   planner.Sizing
	Memory   planner.Memory
	Warnings []string
	Counted  []string // items on the bill in addition to hours, derived from the layout
	Sim      sim.Config
	Skipped  []string // steps of the script that are not simulated
}

// Base returns the job before a policy is chosen: its pools, the on-demand fleet that all compare with, and the
// reliable tier for policies that have one, if any.
func (m *Maker) Base() (sim.Config, error) {
	made, err := m.open()
	if err != nil {
		return sim.Config{}, err
	}
	if tiered, err := m.By(bidding.TierML{}.Name()); err == nil {
		made.Sim.Reliable = tiered.Sim.Reliable
	}
	return made.Sim, nil
}

// open makes the part of the job that all policies share.
func (m *Maker) open() (made Made, err error) {
	alike := *m.Job
	alike.Tune = nil // it has no effect here, and policies by restart do not use it
	if made.Job, err = alike.By(bidding.Checkpoint{}.Name()); err != nil {
		return made, err
	}
	if made.Choice, err = planner.Resolve(made.Job, m.Offers, m.Catalog); err != nil {
		return made, err
	}
	if alike := made.Choice; m.Schema != nil { // on demand all machines are reliable, as with checkpoints
		if _, err := planner.AdmitMachines(made.Job, &alike, m.Schema, m.Least); err == nil {
			made.Choice.OnDemand = alike.OnDemand
		}
	}
	if made.Sim, made.Skipped, err = ForJob(made.Job, made.Choice, m.Content); err != nil {
		return made, err
	}
	if m.Adjust != nil {
		if err := m.Adjust(&made.Sim); err != nil {
			return made, err
		}
	}
	return made, m.Evictions.Apply(&made.Sim)
}

// By returns the job for a policy: with its reliable tier, if any, its checkpoints, and the pools that are near enough
// and whose machines can hold their part of the model in addition. The error tells why the policy cannot run the job
// within its bounds.
func (m *Maker) By(name string) (Made, error) {
	made, err := m.open()
	if err != nil {
		return made, err
	}
	if made.Job, err = m.Job.By(name); err != nil {
		return made, err
	}
	policy, err := made.Job.Decider()
	if err != nil {
		return made, err
	}
	value := made.Job.ValueOfHour(PerHour(&made.Sim))
	made.Job.ValueOfTime, made.Job.Prefer, made.Sim.ValueOfTime = value, "", value
	made.Sim.Checkpoints = checkpoints(made.Job, m.state())
	onDemand := made.Job.Policy == bidding.OnDemand{}.Name()
	if onDemand {
		if err := made.onDemand(); err != nil {
			return made, err
		}
	}
	if made.Choice, err = planner.Resolve(made.Job, m.Offers, m.Catalog); err != nil {
		return made, err
	}
	if m.Schema != nil {
		if err := m.admit(&made, onDemand); err != nil {
			return made, err
		}
	}
	made.Sim.Reliable = tier(made.Choice.Reliable)
	pools := made.Sim.Pools
	made.Sim = WithPolicy(made.Sim, policy)
	made.Sim.Reliable = tier(made.Choice.Reliable)
	near := func(p market.Pool) bool { return !tooFar(&made.Sim, p) }
	made.Choice.Pools = slices.DeleteFunc(made.Choice.Pools, func(c bidding.Candidate) bool { return !near(c.Pool) })
	made.Sim.Pools = slices.DeleteFunc(slices.Clone(pools), func(c bidding.Candidate) bool {
		return !slices.ContainsFunc(made.Choice.Pools, func(has bidding.Candidate) bool { return has.Pool == c.Pool })
	})
	return made, m.countTraffic(&made)
}

// countTraffic bills traffic between zones on a real cloud: at each clock workers read and write the model on the
// reliable machines.
func (m *Maker) countTraffic(made *Made) (err error) {
	home, state := made.Sim.Reliable.Pool.Zone, m.state()
	if !made.Job.Place().Remote || state == 0 || made.Sim.Reliable.Count == 0 ||
		!slices.ContainsFunc(made.Sim.Pools, func(c bidding.Candidate) bool { return c.Pool.Zone != home }) {
		return nil
	}
	clocks := float64(made.Sim.Job.Clocks) / ComputeTime(&made.Sim).Hours()
	gigabytes := min(2*float64(state)*clocks/float64(max(machinesWanted(&made.Sim), 1))/1e9, 1e6)
	book := market.Crossing(made.Job.Local.Rules, made.Job.Cloud, int(gigabytes*1000+.5), home)
	if book == made.Job.Local.Rules {
		return nil
	}
	made.Job.Local.Rules = book
	if made.Sim.Rules, err = made.Job.Rules(); err != nil {
		return err
	}
	shown := fmt.Sprintf("%.3g", gigabytes)
	if gigabytes >= 1000 { // without an exponent
		shown = fmt.Sprintf("%.0f", gigabytes)
	}
	made.Counted = append(made.Counted, fmt.Sprintf("Counted of each machine outside %s: about %s GB an hour that cross zones, twice the model at each clock and shared by all, $%s an hour.",
		home, shown, made.Sim.Rules.Terms().Fees.TrafficPerHour("")))
	return nil
}

// onDemand makes the whole fleet on-demand: in training jobs as reliable machines, of the type on which the work costs
// least. Nothing above max_price is bought.
func (made *Made) onDemand() error {
	within := slices.DeleteFunc(slices.Clone(made.Choice.OnDemand), func(o planner.OnDemandType) bool {
		return !slices.ContainsFunc(made.Choice.Pools, func(c bidding.Candidate) bool { return c.Pool == o.Pool })
	})
	if len(within) == 0 {
		return made.Job.Fault("policy", "on-demand buys nothing: on demand every type costs more than max_price", "raise max_price, or write another policy")
	}
	if made.Job.IsProgram() {
		return nil
	}
	fleet, err := cheapestOnDemand(&made.Sim, within)
	if err != nil {
		return err
	}
	made.Job.Reliable = config.Reliable{Type: fleet.Type.Name, Count: fleet.Count, Zone: fleet.Pool.Zone}
	return nil
}

// admit chooses the reliable tier if the job leaves it open, drops pools whose machines have too little memory, and
// refuses fleets that cannot hold the model.
func (m *Maker) admit(made *Made, onDemand bool) (err error) {
	held := m.held(made.Job)
	need := planner.ReliableNeed{Schema: held, Worker: tiers.WorkerMemory(held, m.Least), Data: m.Data, Work: m.Work / float64(made.Job.Local.FlopsPerVCPU) * made.Job.Local.Speed / 3600}
	size := func() error {
		made.Sizing, err = planner.SizeReliable(made.Job, &made.Choice, m.Catalog, need)
		return err
	}
	if err := size(); err != nil {
		return err
	}
	if !onDemand { // only reliable machines work
		pools := len(made.Choice.Pools)
		if made.Warnings, err = planner.AdmitMachines(made.Job, &made.Choice, held, m.Least); err != nil {
			return err
		}
		if len(made.Choice.Pools) < pools { // the tier is sized for the fleet that will be bought
			if err := size(); err != nil {
				return err
			}
		}
	}
	made.Memory, err = planner.AdmitMemory(made.Job, made.Choice.Reliable, held, m.Least)
	return err
}

// tier converts a fleet for the controller.
func tier(f planner.Fleet) elasticity.Reliable {
	return elasticity.Reliable{Pool: f.Pool, Type: f.Type, Count: f.Count}
}

// why returns a refusal in one line, without the position in the job file, for which a table has no room.
func why(err error) string {
	faults, ok := errors.AsType[config.Faults](err)
	if !ok {
		return err.Error()
	}
	text := ""
	for i, f := range faults {
		if i > 0 {
			text += "; "
		}
		text += fmt.Sprintf("%s: %s", f.Field, f.Problem)
	}
	return text
}
