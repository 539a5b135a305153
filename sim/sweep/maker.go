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

// Content is what is known of a job's work besides its file.
type Content struct {
	Work   float64    // of all clocks, or all programs, in floating-point operations
	Schema *ps.Schema // nil = programs, or a model that is not known
	Least  []uint64   // rows that each split reads, whatever the data are; index: TableID
	Data   int64      // bytes of all splits
	// On is the type that a program was measured on, or is assumed to run on; only that type's time on demand is known. Empty = all types'.
	On string
	// Programs sets how long the preparations of programs take; nil = it is not known.
	Programs func(*sim.Programs)
}

// servers returns the most transient servers that the model is worth; 0 = half of the machines.
func (c *Content) servers(job *config.Job) int {
	if c.Schema == nil {
		return 0
	}
	return tiers.ServersFor(c.Schema, int64(job.Stages.ServerBytes))
}

// state returns the size of the model, in bytes; 0 = unknown, as that of sparse tables is beforehand.
func (c *Content) state() int64 {
	if c.Schema == nil || c.Schema.HasSparse() {
		return 0
	}
	return tiers.ReliableMemory(c.Schema, 1).State
}

// held returns the model that reliable machines are sized for: with as many rows as the declared size of a checkpoint takes, where that is larger.
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

// Maker makes a job: what plan, dry run, auto and run have of it. A policy's job differs from another's in nothing but what By says.
type Maker struct {
	Job     *config.Job
	Offers  []planner.Offer
	Catalog *market.Catalog
	Content
	Evictions Evictions
	// Adjust changes each simulation in the same way, such as by what was measured on this computer; nil = nothing is changed.
	Adjust func(*sim.Config) error
}

// Made is a job by one policy.
type Made struct {
	Job      *config.Job // with nothing left open
	Choice   planner.Resolved
	Sizing   planner.Sizing
	Memory   planner.Memory
	Warnings []string
	Counted  []string // what is on the bill besides hours, and follows from the layout
	Sim      sim.Config
	Skipped  []string // steps of the script that are not simulated
}

// Base returns the job before a policy is chosen: its pools, the on-demand fleet that all compare with, and the reliable tier of the
// policies that have one, where there is any.
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

// open makes the job as far as it is the same by all policies.
func (m *Maker) open() (made Made, err error) {
	alike := *m.Job
	alike.Tune = nil // it changes nothing here, and policies by restart have no use for it
	if made.Job, err = alike.By(bidding.Checkpoint{}.Name()); err != nil {
		return made, err
	}
	if made.Choice, err = planner.Resolve(made.Job, m.Offers, m.Catalog); err != nil {
		return made, err
	}
	if alike := made.Choice; m.Schema != nil { // on demand all machines are, as by checkpoint
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

// By returns the job by a policy: its reliable tier, which the policy may not have, the pools whose machines can hold their part of the
// model along with it and are near enough, its checkpoints. The error says why the policy cannot run the job within its bounds.
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

// countTraffic puts on the bill what crosses zones on a real cloud: at each clock workers read and write the model, which the reliable machines have.
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

// onDemand has the whole fleet bought on demand: by training jobs as reliable machines, of the type on which the work costs least. Nothing
// above max_price is.
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

// admit chooses the reliable tier where the job leaves it open, drops pools of machines with too little memory, and refuses what cannot hold
// the model.
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
		if len(made.Choice.Pools) < pools { // the tier is sized for what will be bought
			if err := size(); err != nil {
				return err
			}
		}
	}
	made.Memory, err = planner.AdmitMemory(made.Job, made.Choice.Reliable, held, m.Least)
	return err
}

// tier returns a fleet as the controller knows it.
func tier(f planner.Fleet) elasticity.Reliable {
	return elasticity.Reliable{Pool: f.Pool, Type: f.Type, Count: f.Count}
}

// why returns a refusal in a line: without the place in the job file, which a table has no room for.
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
