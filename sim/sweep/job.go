package sweep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/provisioner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/sim"
	"github.com/tierml/tierml/tiers"
)

// known returns the types with a name, or all if it is not found.
func known(all []planner.OnDemandType, name string) []planner.OnDemandType {
	if i := slices.IndexFunc(all, func(o planner.OnDemandType) bool { return o.Type.Name == name }); i >= 0 {
		return all[i : i+1]
	}
	return all
}

// ForJob returns the simulation of a job as `tierml run` would run it on the fake cloud: with its own work, start,
// speed, notice, boot and script, and all pools and reliable machines of the choice. Skipped names the script's steps
// that the simulator cannot do.
func ForJob(job *config.Job, choice planner.Resolved, work Content) (cfg sim.Config, skipped []string, err error) {
	policy, err := policyOf(job)
	if err != nil {
		return sim.Config{}, nil, err
	}
	rules, err := job.Rules()
	if err != nil {
		return sim.Config{}, nil, err
	}
	cfg = sim.Config{
		Name: job.Name, Seed: job.Seed, Start: job.Local.Start,
		Job:    sim.Workload{Clocks: ps.Clock(job.Train.Clocks), Splits: job.Train.Splits, Partitions: job.Train.Partitions, Work: work.Work},
		Policy: policy, Rules: rules, Want: choice.Want, Pools: choice.Pools, Capacity: choice.Capacity,
		Reliable:   tier(choice.Reliable),
		Allocation: provisioner.Allocation(job.Resources.ProviderChooses()),
		Stages:     tiers.Thresholds{TwoAbove: job.Stages.TwoAbove, ThreeAbove: job.Stages.ThreeAbove, MostServers: work.servers(job)},

		FLOPSPerVCPU: float64(job.Local.FlopsPerVCPU),
		Checkpoints:  checkpoints(job, work.state()),
		MaxDuration:  job.MaxDuration,
		Deadline:     job.Deadline,
		Budget:       job.SpendingCeiling(),
		PerHour:      job.HourlyCeiling(),
	}.At(job.Place())
	cfg.Job.Standby, cfg.Job.Passes = job.OnTiers(), job.OnTiers() && !job.Tiers.Deterministic
	if job.IsProgram() {
		cfg.Job.Clocks, cfg.Job.Splits, cfg.Job.Partitions = 1, 1, 1
		cfg.Programs = &sim.Programs{Count: job.Resources.Count.Most, Least: job.Resources.Count.Least, Tasks: job.Tasks, Elastic: job.Elastic(), State: job.State.Dir != "", Every: job.State.Every}
		if s := job.Trials(); s != nil {
			cfg.Programs.TPE = s.TPE
			if job.Progress.Of > 0 {
				cfg.Programs.Rungs, cfg.Programs.Of = s.Rungs, int64(job.Progress.Of)
			}
		}
		if work.Programs != nil {
			work.Programs(cfg.Programs)
		}
	}
	if cfg.Equivalent, err = cheapestOnDemand(&cfg, known(choice.OnDemand, work.On)); err != nil {
		return sim.Config{}, nil, err
	}
	if err := (Evictions{}).Apply(&cfg); err != nil {
		return sim.Config{}, nil, err
	}
	cfg.ValueOfTime = job.ValueOfHour(PerHour(&cfg))
	for _, a := range job.Local.Script {
		switch do := sim.Verb(a.Do); do {
		case sim.Evict, sim.EvictNow, sim.Kill, sim.Rebalance, sim.NoCapacity:
			cfg.Faults = append(cfg.Faults, sim.Fault{At: a.At, Do: do, Target: a.Target, Count: a.Count, Of: a.Of, For: a.For})
		default:
			skipped = append(skipped, fmt.Sprintf("%s at %s", a.Do, a.At))
		}
	}
	return cfg, skipped, nil
}

// policyOf returns the job's policy; the paper's while `auto` is undecided.
func policyOf(job *config.Job) (bidding.Policy, error) {
	if job.Policy == config.Auto {
		return bidding.TierML{}, nil
	}
	return job.Decider()
}

// checkpoints returns the declared costs. An undeclared size is the model's own; on a real cloud, if the model's is
// unknown too, the assumed one; likewise the bandwidth there, and with a declared size.
func checkpoints(job *config.Job, state int64) sim.Checkpoints {
	c := job.Checkpoint
	out := sim.Checkpoints{
		Model: cmp.Or(declaredState(job), float64(state)), Bandwidth: float64(c.Bandwidth), Save: c.Save, Restart: c.Restart, Overhead: c.Overhead,
		Every: job.Tempo().Market(c.Every), EveryClocks: ps.Clock(c.EveryClocks), Fixed: job.Restarts() && c.Every > 0,
	}
	if assumed := sim.OnStorage(); declaredState(job) > 0 || out.Bandwidth > 0 || job.Tempo().Remote {
		out.Model, out.Bandwidth = cmp.Or(out.Model, assumed.Model), cmp.Or(out.Bandwidth, assumed.Bandwidth)
	}
	return out
}

// declaredState returns the checkpoint size that the job declares, in bytes; 0 = none.
func declaredState(job *config.Job) float64 { return float64(job.Checkpoint.Model.MiB) * (1 << 20) }

// played returns the real cloud of a rule book.
func played(rules market.RuleBook) tempo.Place {
	return tempo.Remote(cmp.Or(rules.Terms().Notice, 2*time.Minute))
}

// OnEC2 returns the same job on a cloud of real speed, scaled so that its work takes a given time on the on-demand
// fleet: on its own cloud, or the one that the fake cloud emulates. The fake cloud's script is left out. Clocks, splits
// and partitions are coarse, as a start costs the simulator about a microsecond for each clock, cut and partition;
// decisions about machines do not depend on them.
func OnEC2(cfg sim.Config, compute time.Duration) sim.Config {
	if !cfg.Settings.Remote {
		if cfg.Settings.Speed > 0 {
			cfg.Checkpoints.Every = cfg.Settings.Wall(cfg.Checkpoints.Every)
			if cfg.Programs != nil { // as long by the wall clock there
				there := *cfg.Programs
				there.Fetch, there.Setup, there.Restore, there.Save = cfg.Settings.Wall(there.Fetch), cfg.Settings.Wall(there.Setup), cfg.Settings.Wall(there.Restore), cfg.Settings.Wall(there.Save)
				cfg.Programs = &there
			}
		}
		cfg = cfg.At(played(cfg.Rules))
	}
	cfg.Faults, cfg.MaxDuration, cfg.Deadline, cfg.Budget = nil, 0, time.Time{}, 0
	assumed := sim.OnStorage()
	cfg.Checkpoints.Model, cfg.Checkpoints.Bandwidth = cmp.Or(cfg.Checkpoints.Model, assumed.Model), cmp.Or(cfg.Checkpoints.Bandwidth, assumed.Bandwidth)
	cfg.Stages.MostServers = 0 // clocks are not the model's, and have no overhead apart from computing: half of the machines serve
	cfg.Job.Work = compute.Seconds() * fleetRate(&cfg)
	clocks := ps.Clock(max(1, compute/clockLength))
	if every := &cfg.Checkpoints.EveryClocks; *every > 0 {
		*every = max(1, *every*clocks/cfg.Job.Clocks)
	}
	cfg.Job.Clocks, cfg.Job.Coarse = clocks, true
	cfg.Job.Splits = min(cfg.Job.Splits, splitsPerMachine*machinesWanted(&cfg))
	cfg.Job.Partitions = min(cfg.Job.Partitions, maxPartitions)
	cfg.Horizon = Horizon(compute)
	return cfg
}

const (
	clockLength      = time.Minute // on the on-demand fleet: it must fit into a notice, or no flush would
	splitsPerMachine = 8           // with 2, a fleet that had lost a quarter of its machines had no work for another ninth
	maxPartitions    = 2
)

// machinesWanted returns the most machines that the job wants of any of its types.
func machinesWanted(cfg *sim.Config) int {
	most := cfg.Want.Machines
	for _, p := range cfg.Pools {
		if p.Type.VCPU > 0 && cfg.Want.VCPU > 0 {
			most = max(most, (cfg.Want.VCPU+p.Type.VCPU-1)/p.Type.VCPU)
		}
	}
	return most
}

// Within returns the time given to policies that keep a deadline: the job's own if it is run unchanged, otherwise half
// as long again as the work takes on the on-demand fleet.
func Within(cfg *sim.Config) time.Duration {
	if !cfg.Deadline.IsZero() {
		return cfg.Deadline.Sub(cfg.Start)
	}
	return ComputeTime(cfg)*3/2 + time.Hour/2
}

// Horizon returns how long a simulated run may take: twice the undisturbed time, and a day.
func Horizon(compute time.Duration) time.Duration { return 2*compute + 24*time.Hour }

// ComputeTime returns how long the work takes on the on-demand fleet, undisturbed, in market time.
func ComputeTime(cfg *sim.Config) time.Duration {
	length, _ := cfg.Undisturbed(cfg.Equivalent.Count, cfg.Equivalent.Type.WorkRate())
	return length
}

// fleetRate returns the on-demand fleet's rate, in floating-point operations per second of market time.
func fleetRate(cfg *sim.Config) float64 {
	e := cfg.Equivalent
	return float64(e.Count) * e.Type.WorkRate() * cfg.FLOPSPerVCPU / cfg.Timing.Speed
}

// PerHour returns the on-demand fleet's hourly cost.
func PerHour(cfg *sim.Config) market.USD {
	return cfg.Equivalent.Type.OnDemand * market.USD(cfg.Equivalent.Count)
}

// OnDemandCost returns the cost of the undisturbed work on the on-demand fleet, without start-up and, except for
// programs, without rounding up of hours: plans and `tierml report` compare with the same figure.
func OnDemandCost(cfg *sim.Config) market.USD { return Baseline(cfg).Cost }

// Baseline returns the undisturbed work on the on-demand fleet.
func Baseline(cfg *sim.Config) planner.OnDemand { return onDemand(cfg, cfg.Equivalent) }

func onDemand(cfg *sim.Config, r elasticity.Reliable) planner.OnDemand {
	length, beside := cfg.Undisturbed(r.Count, r.Type.WorkRate())
	cost := r.Type.OnDemand.For(length)
	if cfg.Programs != nil && length > 0 {
		cost = market.USD(math.Round(cfg.Rules.Terms().Billed(length.Hours()) * float64(r.Type.OnDemand)))
	}
	return planner.OnDemand{
		Fleet: planner.Fleet{Pool: r.Pool, Type: r.Type, Count: r.Count}, Time: length, Beside: beside, Cost: cost * market.USD(r.Count),
	}
}

// WithPolicy returns the run with another policy and the same pools. On demand, all machines are reliable, the whole
// on-demand fleet, and prices are ignored. With a reliable tier, all machines are in its region. Maker.By decides the
// other differences.
func WithPolicy(cfg sim.Config, policy bidding.Policy) sim.Config {
	cfg.Policy = policy
	switch policy.(type) {
	case bidding.OnDemand:
		cfg.Reliable = cfg.Equivalent
		cfg.Pools, cfg.Faults, cfg.Hazard = nil, nil, nil
	case bidding.ByRestart:
		cfg.Reliable = elasticity.Reliable{}
	default:
		cfg.Pools = slices.DeleteFunc(slices.Clone(cfg.Pools), func(p bidding.Candidate) bool { return tooFar(&cfg, p.Pool) })
	}
	return cfg
}

// tooFar reports whether a pool is in another region than the reliable machines: workers exchange parameters with them
// at each clock, and a simulated run has neither the timing nor the cost of that between regions.
func tooFar(cfg *sim.Config, pool market.Pool) bool {
	home := cfg.Reliable.Pool.Region
	return cfg.Programs == nil && home != "" && pool.Region != home
}

// tooFarSaid names the regions that policies with a reliable tier leave out; "" = none, or no such policy.
func (p Experiment) tooFarSaid() string {
	var regions []string
	for _, c := range p.Job.Pools {
		if tooFar(&p.Job, c.Pool) && !slices.Contains(regions, c.Pool.Region) {
			regions = append(regions, c.Pool.Region)
		}
	}
	tiered := slices.ContainsFunc(p.Policies, func(name string) bool {
		policy, err := bidding.ByName(name)
		_, restarts := policy.(bidding.ByRestart)
		return err == nil && !restarts && name != (bidding.OnDemand{}).Name()
	})
	if len(regions) == 0 || !tiered {
		return ""
	}
	return fmt.Sprintf("policies with reliable machines, which are in %s, use no pools of %s: parameters cross between them at each clock. "+
		"checkpoint, uniform-progress, skynomad and deadline do", p.Job.Reliable.Pool.Region, strings.Join(regions, ", "))
}

// cheapestOnDemand returns the fleet on which the work costs least on demand: as many machines of one type as the job
// wants as transient ones. Ties go to smaller machines, then to the first pool.
func cheapestOnDemand(cfg *sim.Config, types []planner.OnDemandType) (best elasticity.Reliable, err error) {
	for _, o := range types {
		if o.Type.VCPU == 0 || o.Type.OnDemand == 0 {
			continue
		}
		r := elasticity.Reliable{Pool: o.Pool, Type: o.Type, Count: cmp.Or(cfg.Want.Machines, (cfg.Want.VCPU+o.Type.VCPU-1)/o.Type.VCPU)}
		if best.Count == 0 || cmp.Or(cmp.Compare(onDemand(cfg, r).Cost, onDemand(cfg, best).Cost), cmp.Compare(r.Type.VCPU, best.Type.VCPU)) < 0 {
			best = r
		}
	}
	if best.Count == 0 {
		return best, fmt.Errorf("the vCPUs or the on-demand price of every type are unknown")
	}
	return best, nil
}
