package jobrun

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/diloco"
	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/restart"
	"github.com/tierml/tierml/elasticity/runner"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Wall-clock intervals of a run on the fake cloud, where machines are near: polling is more frequent than on a cloud that limits calls.
const (
	pollPrices  = 400 * time.Millisecond
	pollCloud   = time.Second
	pollNotices = 250 * time.Millisecond
	callTimeout = 20 * time.Second
	askAgain    = 10 * time.Minute // for repeating a launch: later the market has changed, and the token is nearly expired
)

// controller decides by the job's policy: with a reliable tier, or by kill and restart.
func (r *session) controller(history map[market.Pool]*market.History) (runner.Controller, error) {
	if r.cfg.Programs != nil {
		return r.programController(history)
	}
	policy, err := r.cfg.Job.Decider()
	if err != nil {
		return nil, err
	}
	c, err := r.controllerConfig(policy, history)
	if err != nil {
		return nil, err
	}
	if _, restarts := policy.(bidding.ByRestart); !restarts {
		return elasticity.New(c), nil
	}
	return restart.New(r.restartConfig(c), restart.Tiered(c)), nil
}

// restartConfig returns the configuration of a run by kill and restart whose fleets train according to c.
func (r *session) restartConfig(c elasticity.Config) restart.Config {
	var reached ps.Clock
	if r.cfg.Before != nil {
		reached = r.cfg.Before.Furthest
	}
	return restart.Config{
		Settings: c.Settings, Run: c.Run, Clocks: c.Job.Clocks, Want: c.Want, Pools: c.Pools, Policy: c.Policy,
		Job: bidding.Job{Deadline: c.Deadline, Work: c.Job.Work, Budget: c.Budget, PerHour: c.PerHour,
			SaveTime: r.cfg.SaveTime, State: r.cfg.StateBytes},
		Restart: r.cfg.RestartTime, SaveEvery: c.Checkpoints.Every, ResumeAt: r.cfg.ResumeAt, Reached: reached, Past: c.Past, AskAgain: c.AskAgain,
		MaxDuration: c.MaxDuration, Rules: c.Rules, Billed: c.Billed,
	}
}

func (r *session) controllerConfig(policy bidding.Policy, history map[market.Pool]*market.History) (elasticity.Config, error) {
	job, choice := r.cfg.Job, r.cfg.Choice
	dataset, err := json.Marshal(r.cfg.Dataset)
	if err != nil {
		return elasticity.Config{}, fmt.Errorf("describing the data: %w", err)
	}
	params := map[string]string{}
	for name, value := range job.Train.Params {
		params[name] = fmt.Sprint(value)
	}
	rules, err := job.Rules()
	if err != nil {
		return elasticity.Config{}, err
	}
	settings := job.Tempo()
	c := elasticity.Config{
		Settings: settings,
		Run:      fmt.Sprintf("%s-%d", r.unique(), r.cfg.Part),
		Policy:   policy,
		Want:     choice.Want,
		Stages:   tiers.Thresholds{TwoAbove: job.Stages.TwoAbove, ThreeAbove: job.Stages.ThreeAbove, MostServers: tiers.ServersFor(&r.schema, int64(job.Stages.ServerBytes))},
		Reliable: elasticity.Reliable{Pool: choice.Reliable.Pool, Type: choice.Reliable.Type, Count: choice.Reliable.Count},
		Grows:    r.state.Grows,
		Job: elasticity.Job{
			Schema: r.schema, App: job.Train.App, Params: params, Dataset: dataset, SplitsURL: r.splitsURL,
			Clocks: ps.Clock(job.Train.Clocks), Work: r.vcpuHours(), EvalEvery: ps.Clock(job.Train.EvaluateEvery),
			Stop: job.Train.Stop.Rules(), Figure: r.cfg.Program.ScoreName(),
			Heartbeat: job.Heartbeat, OrphanAfter: job.OrphanAfter,
			Metric:     func(mean float64) float64 { return r.cfg.Program.Score(mean, 1) },
			ResumeFrom: r.cfg.ResumeFrom, ResumeAt: r.cfg.ResumeAt, Before: r.cfg.Before,
		},
		Checkpoints: elasticity.Checkpoints{
			Place: r.state.Checkpoints, Life: fmt.Sprint(r.cfg.Part + 1), Every: settings.Market(job.Checkpoint.Every),
			EveryClocks: ps.Clock(job.Checkpoint.EveryClocks), Newest: r.cfg.ResumeFrom, NewestAt: r.cfg.ResumeAt,
			Older: r.cfg.ResumeOlder,
		},
		Past: r.cfg.Past, FirstID: uint64(r.cfg.Part) << 32,
		Deadline: job.Deadline, Budget: job.SpendingCeiling(), PerHour: job.HourlyCeiling(), ValueOfTime: job.ValueOfTime,
		Chooses: job.Resources.ProviderChooses() != "",
		Rules:   rules, MaxDuration: job.MaxDuration,
		WholeHours: rules.Terms().Increment > 0, Billed: r.billed(), Bounds: r.cfg.Bounds,
	}
	if job.OnTiers() {
		if c.Job.Secrets, err = ReadSecrets(job); err != nil {
			return elasticity.Config{}, err
		}
		c.Job.Standby, c.Job.Short = map[string]string{diloco.Passes: "1"}, !job.Tiers.Deterministic
	}
	if job.TunesTraining() {
		known, err := Known(r.settingsFile(), job, &r.schema, choice)
		if err != nil {
			r.cfg.Log.Warn("settings of former runs are not used", "error", err)
		}
		c.Tune, _ = planner.Tuning(job, choice.Reliable.Count, known)
	}
	if r.outlived() {
		c.AskAgain = settings.Market(askAgain)
	}
	c.Pools = r.pools(history)
	return c, nil
}

// pools returns the pools in which the run may buy, with past prices.
func (r *session) pools(history map[market.Pool]*market.History) (out []elasticity.Pool) {
	for _, p := range r.cfg.Choice.Pools {
		h := history[p.Pool]
		if p.OnDemand() {
			h = p.History
		}
		if h == nil {
			h = market.NewHistory(nil)
		}
		out = append(out, elasticity.Pool{Pool: p.Pool, Type: p.Type, MaxPrice: p.MaxPrice, Hints: p.Hints, History: h})
	}
	return out
}

// SchemaOf returns what all machines of a job agree on.
func SchemaOf(job *config.Job, program apps.Program) ps.Schema {
	return ps.Schema{
		Tables: program.Tables(), Partitions: job.Train.Partitions, Splits: job.Train.Splits,
		Staleness: staleness(job.Train), Seed: job.Seed, Deterministic: job.Train.Deterministic,
	}
}

func staleness(t config.Train) ps.Clock {
	if t.Consistency == config.ASP {
		return ps.Unbounded
	}
	return ps.Clock(t.Staleness)
}

// startDetails returns the first line of the journal.
func (r *session) startDetails() (json.RawMessage, error) {
	job, choice := r.cfg.Job, r.cfg.Choice
	resolved, err := job.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("writing the resolved job down: %w", err)
	}
	rules, err := job.Rules()
	if err != nil {
		return nil, err
	}
	d := journal.StartDetails{
		Version: r.cfg.Version, Name: job.Name, Seed: job.Seed, Clock: r.cfg.Clock.String(), Rules: rules.Name(),
		Cloud: job.Cloud, App: job.Train.App, Clocks: int64(job.Train.Clocks), Splits: job.Train.Splits, Partitions: job.Train.Partitions,
		Want:        journal.Want{Machines: choice.Want.Machines, VCPU: choice.Want.VCPU},
		OrphanAfter: r.cfg.Clock.ToMarket(job.OrphanAfter).Seconds(), Billed: r.billed(),
		Thresholds: journal.Thresholds{
			Stage2Ratio: job.Stages.TwoAbove, Stage3Ratio: job.Stages.ThreeAbove,
			SwitchFactor: bidding.SwitchRatio, SwitchAfter: bidding.SwitchAfter.Seconds(),
		},
		Job: resolved,
	}
	if job.Train.Stop.Loss > 0 {
		d.TargetLoss = job.Train.Stop.Loss
	}
	switch {
	case r.cfg.Hosts != nil:
		d.App = "hosts"
	case r.cfg.Programs != nil:
		r.describeProgram(&d)
	default:
		d.Metric = r.cfg.Program.ScoreName()
	}
	if choice.Reliable.Count > 0 {
		d.Reliable = journal.Fleet{Pool: choice.Reliable.Pool.String(), Count: choice.Reliable.Count}
	}
	for _, t := range r.types() {
		d.Machines = append(d.Machines, journal.MachineType{
			Name: t.Name, VCPU: t.VCPU, MemoryMiB: t.MemoryMiB, OnDemand: t.OnDemand.String(), FLOPS: r.flops(t), Network: r.network(t),
		})
	}
	for _, p := range choice.Pools {
		d.Pools = append(d.Pools, p.Pool.String())
	}
	if r.cfg.Plan != nil {
		d.ZoneIDs = zoneIDs(r.cfg.Plan.Input.ZoneIDs, choice)
	}
	return journal.Pack(d)
}

// zoneIDs returns the ids of the zones in which the run may buy.
func zoneIDs(all map[string]string, choice planner.Resolved) map[string]string {
	ids := map[string]string{}
	add := func(zone string) {
		if id := all[zone]; id != "" {
			ids[zone] = id
		}
	}
	add(choice.Reliable.Pool.Zone)
	for _, p := range choice.Pools {
		add(p.Pool.Zone)
	}
	if len(ids) == 0 {
		return nil
	}
	return ids
}

// network returns the capacity of a shared host's network link, in bytes per second; 0 = unknown. Hosts that are processes of this computer
// have no link, unless the file says otherwise.
func (r *session) network(t market.InstanceType) float64 {
	job := r.cfg.Job
	if r.cfg.Hosts == nil || job.Cloud == config.CloudLocal && !job.Written("reliable.bandwidth") {
		return 0
	}
	return t.Bandwidth
}

// types lists all types that the run may use, each once, in order of first use.
func (r *session) types() []market.InstanceType {
	var out []market.InstanceType
	seen := map[string]bool{}
	add := func(t market.InstanceType) {
		if !seen[t.Name] {
			seen[t.Name] = true
			out = append(out, t)
		}
	}
	if r.cfg.Choice.Reliable.Count > 0 {
		add(r.cfg.Choice.Reliable.Type)
	}
	for _, p := range r.cfg.Choice.Pools {
		add(p.Type)
	}
	for _, t := range r.cfg.Choice.OnDemand {
		add(t.Type)
	}
	return out
}

// vcpuHours returns the work of all clocks at the declared rate.
func (r *session) vcpuHours() float64 {
	job := r.cfg.Job
	var work float64
	if r.cfg.Programs != nil {
		work = r.cfg.Programs.Work
	} else {
		work = r.cfg.Program.WorkPerClock() * float64(job.Train.Clocks)
	}
	return work * job.Local.Speed / float64(job.Local.FlopsPerVCPU) / time.Hour.Seconds()
}

// flops returns the declared compute rate of a type's machines.
func (r *session) flops(t market.InstanceType) float64 {
	return t.WorkRate() * float64(r.cfg.Job.Local.FlopsPerVCPU)
}

// script translates the job's words to the fake cloud's. Targets are spot machines: a run depends on the reliable tier.
func script(actions []config.Action) fakecloud.Script {
	var out fakecloud.Script
	for _, a := range actions {
		out = append(out, fakecloud.Step{
			Offset: a.At, Do: fakecloud.Verb(a.Do), Target: a.Target, Count: a.Count, Of: a.Of, For: a.For, Boot: a.Boot,
		})
	}
	return out
}
