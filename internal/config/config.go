// Package config reads the job file: strict YAML, where every mistake is one clear error with file, line,
// column, what is wrong and what to write instead. All mistakes are reported at once.
//
// It knows what a job may say and what is plainly impossible. It refuses to know which applications exist
// and what their parameters mean, what a market offers, or what follows from a job: those who do know
// report their objections through Job.Fault, so that they look the same. docs/job.md is the reference.
package config

import (
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/internal/stopping"
	"github.com/tierml/tierml/market"
)

// Where machines come from.
const (
	// CloudLocal starts the fake cloud inside the run: machines are local processes.
	CloudLocal = "local"
	// CloudNone starts no cloud: the application trains in one process, without markets or evictions.
	CloudNone = "none"
)

// How the processes of a run speak with each other.
const (
	// SecurityTLS: in TLS 1.3, where both ends show a certificate of the run's own authority.
	SecurityTLS = "tls"
	// SecurityPlain: in plaintext, on the loopback interface only.
	SecurityPlain = "plain"
)

// Whose machines they are.
const (
	ProviderEC2 = "ec2"
	ProviderGCE = "gce"
)

// Job is a job file with its defaults filled in. Durations are market time unless they say wall-clock;
// prices are US dollars per machine and hour; paths are absolute.
//
// The struct tags are the schema: `yaml` is the field's name; `job` adds "required" (there is no default),
// "env" (${NAME} is replaced), "path" (a file that must exist) and "zero" (0 is a value, not "none").
type Job struct {
	// Name names the run directory runs/NAME-N and the machines' tags. Required; letters, digits and
	// dashes, so that it can be a directory and a tag everywhere.
	Name string `yaml:"name" job:"required,env"`
	// Cloud is where machines come from: CloudLocal, CloudEC2, CloudGCE or CloudNone. Required: a job that may spend money
	// should say where.
	Cloud string `yaml:"cloud" job:"required"`
	// Security is how the processes of a run speak with each other: SecurityTLS or SecurityPlain. Default SecurityPlain on
	// the local cloud, where nothing leaves this host, and SecurityTLS elsewhere.
	Security string `yaml:"security"`
	// Provider is whose cloud the local one plays: ProviderEC2 or ProviderGCE. Only with CloudLocal. Default ec2.
	Provider string `yaml:"provider"`
	// Env gives the values of ${NAME}. A name without a value takes it from the environment of whoever
	// starts the job. They are not passed on to machines.
	Env map[string]string `yaml:"env"`

	Resources Resources `yaml:"resources"`
	Reliable  Reliable  `yaml:"reliable"`

	// Policy chooses pools and bids; a name of bidding.ByName. Default "tierml", the paper's.
	Policy string `yaml:"policy"`
	// Budget is the most that the run may cost, reliable machines included. Default 0: no limit.
	Budget market.USD `yaml:"budget"`
	// MaxDuration ends the run in order after this much market time. Default 24h: a forgotten job should
	// not buy machines for ever.
	MaxDuration time.Duration `yaml:"max_duration"`
	// Deadline is the market time by which training should be done; the plan warns when it looks out of
	// reach. Default none.
	Deadline time.Time `yaml:"deadline"`
	// OrphanAfter is how long, in wall-clock time, machines train on without their controller before they
	// stop themselves. Default 10s on the local cloud and 15m elsewhere, where restarting a controller
	// takes longer and a lost hour costs more.
	OrphanAfter time.Duration `yaml:"orphan_after"`
	// Heartbeat is how often, in wall-clock time, machines say that they are alive. Default 500ms on the local cloud.
	Heartbeat time.Duration `yaml:"heartbeat"`
	// DeadAfter is how long, in wall-clock time, a machine may be silent before it is given up. Default 3s on the
	// local cloud: machines that share two cores can be late.
	DeadAfter time.Duration `yaml:"dead_after"`
	// Seed of every random stream of the run. Default 1, so that a run can be repeated without having
	// written it down.
	Seed uint64 `yaml:"seed" job:"zero"`

	// Checkpoint says where and how often the state of training is saved; and it declares what saving and restarting cost,
	// for policies that outlive their machines by checkpoints alone. Not with CloudNone.
	Checkpoint Checkpoint `yaml:"checkpoint"`

	Train  Train  `yaml:"train" job:"required"`
	Stages Stages `yaml:"stages"`
	// Local describes the fake cloud; only for CloudLocal.
	Local Local `yaml:"local"`
	// EC2 describes the installation on Amazon EC2; only for CloudEC2.
	EC2 EC2 `yaml:"ec2"`
	// GCE describes the installation on Google Compute Engine; only for CloudGCE.
	GCE GCE `yaml:"gce"`

	file      string
	positions map[string]position
}

// Restarts says whether the policy does without a reliable tier: it kills and restarts (bidding.ByRestart).
func (j *Job) Restarts() bool {
	policy, err := bidding.ByName(j.Policy)
	if err != nil {
		return false
	}
	_, restarts := policy.(bidding.ByRestart)
	return restarts
}

// Resources are the transient machines: how many, of which kinds, where, and at what price. With CloudNone
// there are none.
type Resources struct {
	// Count of transient machines. Either it or VCPU is set.
	Count int `yaml:"count"`
	// VCPU asks for as many machines as give this many vCPUs in total, whichever type they are of.
	VCPU int `yaml:"vcpu"`
	// AnyOf lists the machines that will do, by type or by need. At least one.
	AnyOf []Machine `yaml:"any_of"`
	// Zones that may be used. Default empty: every zone that has prices.
	Zones []string `yaml:"zones"`
	// MaxPrice is the highest price per machine and hour. Default 0: the type's on-demand price, above
	// which a transient machine makes no sense.
	MaxPrice market.USD `yaml:"max_price"`
}

// Machine says which machines will do: a type by name, or every type that meets a need.
type Machine struct {
	// Type by the provider's name, such as c3.xlarge. Either it or a need (CPUs, Memory, Arch) is set.
	Type string `yaml:"type"`
	// CPUs is the number of vCPUs; "4+" means at least. Default zero: any.
	CPUs CPUs `yaml:"cpus"`
	// Memory of the machine; "8GB+" means at least. Default zero: any.
	Memory Memory `yaml:"memory"`
	// Arch is the processor architecture, x86_64 or arm64. Default "": any.
	Arch string `yaml:"arch"`
	// Rate is the work that one machine does in an hour, in vCPU hours: what makes families and architectures
	// comparable. Default 0: its number of vCPUs.
	Rate float64 `yaml:"rate"`
	// MaxPrice overrides Resources.MaxPrice for these machines, as types of different size want different
	// prices. Default 0: Resources.MaxPrice.
	MaxPrice market.USD `yaml:"max_price"`
}

// Reliable are the on-demand machines that hold the solution and stay for the whole run.
type Reliable struct {
	// Type by the provider's name. Default "": the cheapest on demand of those that Resources.AnyOf admits.
	Type string `yaml:"type"`
	// Count of reliable machines. Default 1: it can hold the model of most jobs and costs least. 0: none can be had, and the
	// most reliable spot machine serves, with checkpoints.
	Count int `yaml:"count" job:"zero"`
	// Zone they run in. Default "": the first zone in use.
	Zone string `yaml:"zone"`
	// Bandwidth is what the network link of each carries in one direction. Default 0: what the catalog says, and
	// where it says no number, nothing is decided by it.
	Bandwidth Bandwidth `yaml:"bandwidth"`
}

// Train is what is trained, on what, for how long.
type Train struct {
	// App is the application's name, such as mf. Required.
	App string `yaml:"app" job:"required"`
	// Data is the training data's file. Required.
	Data string `yaml:"data" job:"required,env,path"`
	// Holdout is the share of the examples that is kept back to measure the test loss, from 0 to below 1.
	// Default 0.1.
	Holdout float64 `yaml:"holdout" job:"zero"`
	// Clocks to train; in each clock every split processes one batch. Required.
	Clocks int `yaml:"clocks" job:"required"`
	// Splits is the number of pieces of training data, the unit in which work moves between machines.
	// Default 64: well above the machines of a small job, so that work spreads evenly.
	Splits int `yaml:"splits"`
	// Partitions is the number of pieces of the parameters, the unit in which they move between servers.
	// Default 32: a few for each server.
	Partitions int `yaml:"partitions"`
	// Consistency says how old the parameters may be that work reads: bsp (all updates of the clocks before),
	// ssp (Staleness says it) or asp (as old as they are: nobody waits). Default bsp, or ssp with a Staleness.
	Consistency string `yaml:"consistency"`
	// Staleness s lets work of clock c read parameters that miss the last s clocks, with ssp. Default 0, and 1
	// where consistency: ssp is written without it.
	Staleness int `yaml:"staleness"`
	// Deterministic makes the model the same, bit for bit, whatever happens to the machines. It needs
	// bsp. Default true with bsp, else false: an answer that can be checked is worth more
	// than the last bit of speed.
	Deterministic bool `yaml:"deterministic" job:"zero"`
	// EvaluateEvery is the number of clocks between two measurements of the test loss. Default 10.
	EvaluateEvery int `yaml:"evaluate_every"`
	// Stop ends training before all clocks are done. Default nothing: it does not.
	Stop Stop `yaml:"stop"`
	// MaxBadLines is how many bad lines of the data to leave out. Default 0: the first one is an error, since a file
	// that is not what it is said to be should not train a model quietly.
	MaxBadLines int `yaml:"max_bad_lines"`
	// Params are the application's own settings: numbers (int64 or float64), texts or bools as written. The
	// application checks them. Default none.
	Params map[string]any `yaml:"params"`
}

// Stop says when a model is good enough. The figure is the test figure, or the train figure when nothing is held out, as
// it is measured every Train.EvaluateEvery clocks; lower is better.
type Stop struct {
	// Loss ends training when the figure is at or below it. Default 0: it does not.
	Loss float64 `yaml:"loss"`
	// MinImprovement ends training when the figure has not become smaller by this share for more than Patience clocks.
	// Default 0: it does not.
	MinImprovement float64 `yaml:"min_improvement"`
	// Patience is a number of clocks. Default 0: every measurement must be an improvement.
	Patience int `yaml:"patience"`
	// Time ends training after so long (market time, where there is a market). Default 0: it does not.
	Time time.Duration `yaml:"time"`
}

// Rules are the same as they are decided by.
func (s Stop) Rules() stopping.Rules {
	r := stopping.Rules{MinImprovement: s.MinImprovement, Patience: int64(s.Patience), Time: s.Time}
	if s.Loss > 0 {
		r.Loss = &s.Loss
	}
	return r
}

// Checkpoint says where and how often the state of training is saved while it goes on: a run that lost every machine that
// held it, or was killed, goes on from there. Model and what follows it declare what saving and restarting cost where
// there is no reliable tier; nothing declared: the dry run says what it assumes (sim.OnStorage).
type Checkpoint struct {
	// To is a directory or a store: file:///PATH, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX. A run makes a folder of its own
	// in it. Default "": the run's directory.
	To string `yaml:"to" job:"env"`
	// Every is the wall-clock time from one to the next. 0: not by time. Default 10s on the local cloud; with a policy that
	// kills and restarts, 0: as often as the policy says.
	Every time.Duration `yaml:"every" job:"zero"`
	// EveryClocks is how many clocks from one to the next. Default 0: not by clocks.
	EveryClocks int `yaml:"every_clocks"`
	// Keep is how many are kept; older ones are removed once a newer one is complete. Default 2: one to go back to should
	// the other turn out to be damaged.
	Keep int `yaml:"keep"`
	// Model is how much a checkpoint holds. Default zero: 2 GB, on EC2's timing.
	Model Memory `yaml:"model"`
	// Bandwidth is that between storage and the whole fleet, in bytes per second of market time. Default zero: 100 MB/s.
	Bandwidth Rate `yaml:"bandwidth"`
	// Save is how long training stands still for a checkpoint. Default 0: Model / Bandwidth.
	Save time.Duration `yaml:"save"`
	// Restart is the time from a whole fleet's being there until it works. Default 0: starting processes and loading data
	// (30 s on EC2's timing), and Model / Bandwidth.
	Restart time.Duration `yaml:"restart"`
	// Overhead is by which share work on spot machines takes longer all the while, beside the stops. Default 0.
	Overhead float64 `yaml:"overhead"`
}

// How old the parameters may be that work reads.
const (
	BSP = "bsp"
	SSP = "ssp"
	ASP = "asp"
)

// Stages are the ratios of transient to reliable machines at which training changes stage.
type Stages struct {
	// TwoAbove is the ratio above which parameters are served from transient machines. Default 1, as in
	// TierML (CMU-PDL-16-102), section 3.2.
	TwoAbove float64 `yaml:"two_above" job:"zero"`
	// ThreeAbove is the ratio above which reliable machines stop computing. Default 15, as there.
	ThreeAbove float64 `yaml:"three_above" job:"zero"`
}

// Local describes the fake cloud: which market it replays, how fast, and how its machines behave.
type Local struct {
	// Prices is the recorded spot price history (CSV, may be gzipped). Required with CloudLocal.
	Prices string `yaml:"prices" job:"env,path"`
	// Catalog lists the machine types with their on-demand prices. Required with CloudLocal.
	Catalog string `yaml:"catalog" job:"env,path"`
	// Advisor is what Amazon's Spot Instance Advisor says of interruptions (its JSON, may be gzipped). Default none.
	Advisor string `yaml:"advisor" job:"env,path"`
	// Rules is the rule book that bills, such as ec2-2017. Default ec2-2017: bids, whole hours, an
	// interrupted hour is free; with ProviderGCE gce-spot.
	Rules string `yaml:"rules"`
	// Start is the market time at which the run begins; prices before it are the history that decisions may
	// use. Required with CloudLocal.
	Start time.Time `yaml:"start"`
	// Speed is how many market seconds pass in one wall-clock second. Default 600: an hour in 6 seconds.
	Speed float64 `yaml:"speed"`
	// Notice is the warning before an eviction, in wall-clock time, because what must be done within it
	// takes real time. Default 4s; with ProviderGCE 30s, as there.
	Notice time.Duration `yaml:"notice" job:"zero"`
	// Boot is how long a machine takes to start, in wall-clock time. Default 500ms.
	Boot time.Duration `yaml:"boot" job:"zero"`
	// FlopsPerVCPU is the declared compute rate of one vCPU, in floating-point operations per wall-clock
	// second, to which every machine is held. Default 400k: so low that one laptop can play many machines.
	FlopsPerVCPU Rate `yaml:"flops_per_vcpu"`
	// Capacity is the most machines of a type that a zone has. Default none: no limit.
	Capacity map[string]int `yaml:"capacity"`
	// Script lists what is made to happen beside the trace's own events. Default nothing.
	Script []Action `yaml:"script"`
}

// What a script can do, in the fake cloud's words.
const (
	DoEvict      = "evict"       // take transient machines back with the usual notice
	DoEvictNow   = "evict-now"   // take transient machines back without
	DoKill       = "kill"        // break transient machines: no notice, no eviction
	DoRebalance  = "rebalance"   // recommend to leave transient machines
	DoNoCapacity = "no-capacity" // sell nothing for a while
	DoSlowStart  = "slow-start"  // let machines start later
	DoThrottle   = "throttle"    // refuse all requests for a while
)

// Action is one thing that the fake cloud is made to do.
type Action struct {
	// At is when, in market time since Local.Start. Required.
	At time.Duration `yaml:"at" job:"required,zero"`
	// Do is what: one of the words above. Required.
	Do string `yaml:"do" job:"required"`
	// Target is which transient machines (evict, evict-now, kill, rebalance): oldest, newest, random or all. Default
	// oldest.
	Target string `yaml:"target"`
	// Count of machines (with a target but all). Default 1.
	Count int `yaml:"count"`
	// Of limits the action to a type, a zone, or "zone/type". Default "": no limit.
	Of string `yaml:"of"`
	// For is how long it lasts, in market time: required for no-capacity and throttle. Default for slow-start:
	// to the end.
	For time.Duration `yaml:"for"`
	// Boot is the time to start meanwhile, in wall-clock time (slow-start; required there).
	Boot time.Duration `yaml:"boot"`
}

// defaults are what a job is before its file is read. Those that depend on other fields are set by settle.
func defaults() *Job {
	return &Job{
		Policy:      "tierml",
		MaxDuration: 24 * time.Hour,
		Seed:        1,
		Reliable:    Reliable{Count: 1},
		Train: Train{
			Holdout: 0.1, Splits: 64, Partitions: 32, Consistency: BSP, Deterministic: true, EvaluateEvery: 10,
		},
		Stages:     Stages{TwoAbove: 1, ThreeAbove: 15},
		Checkpoint: Checkpoint{Keep: 2},
		Local: Local{
			Rules: "ec2-2017", Speed: 600, Notice: 4 * time.Second, Boot: 500 * time.Millisecond,
			FlopsPerVCPU: 400_000,
		},
	}
}
