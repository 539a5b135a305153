// Package config reads the job file: strict YAML, where every mistake is one clear error with file, line, column, problem and remedy. All
// mistakes are reported at once.
//
// It knows what a job may say and what is plainly impossible. It knows nothing about which applications exist and what their parameters
// mean, what a market offers, or what follows from a job: the packages that do know report their objections through Job.Fault, so that they
// look the same. docs/job.md is the reference.
package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/internal/spelling"
	"github.com/tierml/tierml/internal/stopping"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/tiers"
)

// Where machines come from.
const (
	// CloudLocal starts the fake cloud inside the run: machines are local processes.
	CloudLocal = "local"
	// CloudNone starts no cloud: the application trains in one process, without markets or evictions.
	CloudNone = "none"
)

// How the processes of a run communicate.
const (
	// SecurityTLS: TLS 1.3, where both ends present a certificate of the run's own authority.
	SecurityTLS = "tls"
	// SecurityPlain: in plaintext, on the loopback interface only.
	SecurityPlain = "plain"
)

// Job is a job file with its defaults filled in. Durations are market time unless they say wall-clock;
// prices are US dollars per machine and hour; paths are absolute.
//
// The struct tags are the schema: `yaml` is the field's name; `job` adds "required" (there is no default),
// "env" (${NAME} is replaced), "path" (a file that must exist) and "zero" (0 is a value, not "none").
type Job struct {
	// Name names the run directory runs/NAME-N and tags machines: letters, digits and dashes. Default the file's name, or its
	// folder's.
	Name string `yaml:"name" job:"env"`
	// Cloud is where machines come from. `local`: processes on this machine, on a replayed spot market. `ec2`, `gce`: Amazon's
	// and Google's. `kubernetes`: [pods](kubernetes.md). `none`: no machines, for `tierml train`. Default `local`, or the cloud whose settings the
	// file contains.
	Cloud string `yaml:"cloud"`
	// Security is how the processes of a run communicate (docs/security.md). `tls`: mutual TLS. `plain`: plaintext, on loopback
	// only. Default `plain` on `local`, else `tls`.
	Security string `yaml:"security"`
	// Provider is the cloud that the local one imitates. Only with `cloud: local`. Default `ec2`.
	Provider string `yaml:"provider"`
	// Env gives the values of `${NAME}`. A name without a value takes it from the environment. Default none.
	Env map[string]string `yaml:"env"`

	// Resources are the machines that the provider may take back. Default one of the smallest.
	Resources Resources `yaml:"resources"`
	// Reliable are the machines that stay. Default one of the cheapest.
	Reliable Reliable `yaml:"reliable"`

	// Policy chooses pools and bids (docs/policies.md). Default `auto`; `checkpoint` with `run`.
	Policy string `yaml:"policy"`
	// Prefer is what `auto`, `cost-per-work` and `capacity` optimise: the bill, the run time, or both. Default `cost`.
	Prefer string `yaml:"prefer"`
	// ValueOfTime is the value of finishing an hour earlier; it replaces `prefer`. Default derived from `prefer`.
	ValueOfTime market.USD `yaml:"value_of_time"`
	// Budget is the most that the run may cost, at known prices, including reliable machines. Default no limit.
	Budget market.USD `yaml:"budget"`
	// Limits bound what the run may spend in an hour, and say what happens there and at the budget. Default none.
	Limits Limits `yaml:"limits"`
	// Alerts are sent to a webhook. Default none.
	Alerts Alerts `yaml:"alerts"`
	// MaxDuration ends the run cleanly after this time. Default 24h.
	MaxDuration time.Duration `yaml:"max_duration" job:"zero"`
	// Deadline is the market time by which training should be done. Default none.
	Deadline time.Time `yaml:"deadline"`
	// OrphanAfter is how long, in wall-clock time, machines train without their controller before they stop. Default 10s on
	// `local`, else 15m.
	OrphanAfter time.Duration `yaml:"orphan_after"`
	// Heartbeat is how often, in wall-clock time, machines report. Default 500ms on `local`, else 2s.
	Heartbeat time.Duration `yaml:"heartbeat"`
	// DeadAfter is how long, in wall-clock time, a machine may be silent before it is declared dead: at least two heartbeats. Default 3s
	// on `local`, else 30s.
	DeadAfter time.Duration `yaml:"dead_after"`
	// Seed of all random numbers of the run. Default 1.
	Seed uint64 `yaml:"seed" job:"zero"`

	// Checkpoint says where and how often the state of training is saved, and declares the cost of saving and restarting under kill and restart. Not
	// with `cloud: none`. Default see below.
	Checkpoint Checkpoint `yaml:"checkpoint"`

	// Sharing is input for a scheduler.
	Sharing
	// UserProgram is a user's program, instead of Train.
	UserProgram
	// Train is what is trained. Required, or `run`.
	Train Train `yaml:"train"`
	// Hosts makes this a file of machines that jobs share, for `tierml hosts` (docs/hosts.md), instead of `train`. Default
	// none: a job.
	Hosts Hosts `yaml:"hosts"`
	// Tune searches for better settings while the job trains, or for better values of a program's knobs, such as `{threads: 1..8, prefetch: [0, 2,
	// 4]}` (docs/tuner.md). Default false.
	Tune Tuning `yaml:"tune"`
	// Stages are the ratios at which training changes stage. Default those of the paper.
	Stages Stages `yaml:"stages"`
	// Local describes the cloud on this machine. Required with `cloud: local`, and only there.
	Local Local `yaml:"local"`
	// Block describes the installation on a real cloud, below the provider's name in the file; nil = machines are processes of
	// this host, or there are none.
	Block Block

	origin
}

// origin is where a job was read, and what the file leaves open.
type origin struct {
	file      string
	positions map[string]position
	assumed   []Assumption
	anySize   bool    // the file names no machine
	cores     float64 // used by a past run's programs; 0 = unknown
}

// Restarts reports whether the policy works without a reliable tier: it kills and restarts (bidding.ByRestart).
func (j *Job) Restarts() bool {
	policy, err := j.Decider()
	if err != nil {
		return false
	}
	_, restarts := policy.(bidding.ByRestart)
	return restarts
}

// Decider returns the policy by name, suited to the job's kind of work.
func (j *Job) Decider() (bidding.Policy, error) {
	if j.IsProgram() {
		return bidding.ForPrograms(j.Policy)
	}
	return bidding.ByName(j.Policy)
}

// By returns the job with a policy, as if the job file named it. The error says why there is no such job.
func (j *Job) By(policy string) (*Job, error) {
	by := *j
	by.Policy = policy
	if _, err := by.Decider(); err != nil {
		return nil, err
	}
	if problem, instead := by.untunable(); problem != "" {
		return nil, j.Fault("tune", problem, instead)
	}
	if !j.IsProgram() && !j.Written("checkpoint.every") && !j.Written("checkpoint.every_clocks") {
		by.Checkpoint.Every = by.savesEvery()
	}
	return &by, nil
}

// SetZones replaces the job's zones, including that of its reliable machines.
func (j *Job) SetZones(zones []string) error {
	for _, zone := range zones {
		if problem, instead := zoneMistake(zone); problem != "" {
			return fmt.Errorf("%s; %s", problem, instead)
		}
	}
	j.Resources.Zones, j.Reliable.Zone = zones, ""
	return nil
}

// savesEvery returns the default wall-clock interval of saves. Policies by kill and restart decide it themselves.
func (j *Job) savesEvery() time.Duration {
	switch {
	case j.Restarts():
		return 0
	case j.Installation() != nil:
		return 5 * time.Minute
	}
	return 10 * time.Second
}

// ValueOfHour returns what finishing an hour earlier is worth for a fleet of this cost per hour on demand.
func (j *Job) ValueOfHour(fleet market.USD) market.USD {
	switch {
	case j.ValueOfTime > 0:
		return j.ValueOfTime
	case j.Prefer == PreferBalanced:
		return fleet / 4
	case j.Prefer == PreferTime:
		return fleet * 3 / 4
	}
	return 0
}

// What a job prefers.
const (
	PreferCost     = "cost"
	PreferBalanced = "balanced"
	PreferTime     = "time"
)

// Policies returns the words of Job.Policy.
func Policies() []string {
	names := append(bidding.Names(), Auto)
	slices.Sort(names)
	return names
}

// CheckPolicy refuses a name that is neither a value of Job.Policy nor among others.
func CheckPolicy(name string, others ...string) error {
	return spelling.Check("policy", name, append(Policies(), others...))
}

// Place returns where the job runs. It is the zero value for cloud: none.
func (j *Job) Place() tempo.Place {
	p := tempo.Place{Speed: j.Local.Speed, Boot: j.Local.Boot, Notice: j.Local.Notice, DeadAfter: j.DeadAfter}
	if at := j.Installation(); at != nil {
		p.Remote, p.Wait = true, at.Wait
	}
	return p
}

// Tempo returns the timing of the job's plan, dry run and run.
func (j *Job) Tempo() tempo.Settings { return tempo.Of(j.Place()) }

// Rules returns the rule book that bills, including a commitment's coverage.
func (j *Job) Rules() (market.RuleBook, error) {
	name := j.Local.Rules
	if r := j.Reliable; r.Committed > 0 && !strings.Contains(name, "+committed=") {
		name += fmt.Sprintf("+committed=%s@%s", r.Type, r.Committed)
	}
	return market.Rules(name)
}

// SpendingCeiling returns the maximum total cost of the run; 0 = nothing ends it.
func (j *Job) SpendingCeiling() market.USD {
	if j.Limits.OverBudget == LimitWarn {
		return 0
	}
	return j.Budget
}

// HourlyCeiling returns the hourly limit of purchases: limits.per_hour, unless it only causes a warning. 0 = no limit.
func (j *Job) HourlyCeiling() market.USD {
	if j.Limits.OverHour == LimitWarn {
		return 0
	}
	return j.Limits.PerHour
}

// Actions at a limit.
const (
	LimitWarn   = "warn"
	LimitShrink = "shrink"
	LimitStop   = "stop"
	// LimitPause is the former name of LimitShrink, from before runs could be paused; job files may still use it.
	LimitPause = "pause"
)

// Limits bound a run's spending. They need a market.
type Limits struct {
	// PerHour is the most that all machines may cost in an hour, at present prices. Purchases stay 5 % below it, unless
	// `over_hour` is `warn`. Default no limit.
	PerHour market.USD `yaml:"per_hour"`
	// OverHour is what happens above `per_hour`: `warn` sends an alert, `shrink` releases transient machines until the rest fits
	// (or ends a run without reliable ones), `stop` ends the run cleanly. Default shrink.
	OverHour string `yaml:"over_hour"`
	// OverBudget is what happens at `budget`: `stop` ends the run cleanly, `warn` lets it continue. Default stop.
	OverBudget string `yaml:"over_budget"`
	// WarnAt is the share of a limit that causes a warning. Default 0.8; 1 or more: no warning.
	WarnAt float64 `yaml:"warn_at"`
}

// Alerts are sent to a webhook by POST: docs/alerts.md.
type Alerts struct {
	// URL receives the alerts. Default none.
	URL string `yaml:"url"`
	// URLFile is a file with the URL, if it is a secret. Default none.
	URLFile string `yaml:"url_file" job:"path"`
	// SecretFile is a file with the key that signs alerts. Default none: unsigned.
	SecretFile string `yaml:"secret_file" job:"path"`
}

// Resources are the transient machines: how many, of which kinds, where, and at what price. With CloudNone
// there are none.
type Resources struct {
	// Count of transient machines, or a range such as `1..4`: programs begin with the smaller number, training with the larger. Default 1, or derived
	// from `vcpu`.
	Count Machines `yaml:"count"`
	// VCPU is the number of transient vCPUs, for types of different sizes. Default derived from `count`.
	VCPU int `yaml:"vcpu"`
	// AnyOf lists acceptable machines, by type or by need; a single one needs no list: `resources: {cpus: 4+}`. Default the
	// smallest type on sale with 2 vCPUs and 4 GB.
	AnyOf []Machine `yaml:"any_of"`
	// GPU is shorthand for an `any_of` with only GPUs. Only with `run`. Default none.
	GPU []GPU `yaml:"gpu"`
	// Zones that may be used. Default every zone that has prices.
	Zones []string `yaml:"zones"`
	// MaxPrice is the highest price per hour of one machine, spot or on demand, and of reliable machines whose type is not fixed.
	// Default the on-demand price.
	MaxPrice market.USD `yaml:"max_price"`
	// Allocation is how EC2 chooses among [equally good pools](policies.md#where-the-provider-chooses): `one-pool` (not at all),
	// `price-capacity-optimized` or `capacity-optimized`. Default `price-capacity-optimized` on `ec2`, else `one-pool`.
	Allocation string `yaml:"allocation"`
}

// The words of Resources.Allocation.
const (
	AllocationOnePool           = "one-pool"
	AllocationPriceCapacity     = "price-capacity-optimized"
	AllocationCapacityOptimized = "capacity-optimized"
)

// ProviderChooses is the strategy by which the provider chooses among pools; empty = it does not choose.
func (r Resources) ProviderChooses() string {
	if r.Allocation == AllocationOnePool {
		return ""
	}
	return r.Allocation
}

// Machine describes acceptable machines: a type by name, or every type that meets a need.
type Machine struct {
	// Type is the provider's name for the type. Required, or a need: `cpus`, `memory`, `arch` or `gpu`.
	Type string `yaml:"type"`
	// CPUs: every type with this number of vCPUs. Default any.
	CPUs CPUs `yaml:"cpus"`
	// Memory: every type with this memory. Default any.
	Memory Memory `yaml:"memory"`
	// Arch: every type of this architecture. Default any.
	Arch string `yaml:"arch"`
	// GPU: every type with such GPUs: `L40S:1`, `A100:80GB:8` (each with at least this memory), `24GB:1` (any model), `L40S:1+` (at
	// least one). Only with `run`. Default any.
	GPU GPU `yaml:"gpu"`
	// Rate is a machine's relative speed. Default its vCPUs, or its GPUs if the job requests them; with `run` the same for all types.
	Rate float64 `yaml:"rate"`
	// MaxPrice is the highest price per hour of one machine. Default `resources.max_price`.
	MaxPrice market.USD `yaml:"max_price"`
}

// Reliable are the on-demand machines that hold the solution and stay for the whole run.
type Reliable struct {
	// Type is the provider's name for the type, or `auto`. Default `auto`: the cheapest that suffices ([cost](cost.md#the-reliable-machines)).
	Type string `yaml:"type"`
	// Count of reliable machines. With 0 the spot machine with the highest MTTF serves ([training](training.md)), with checkpoints.
	// Default 1; with type `auto` the cheapest number, adjusted at run time.
	Count int `yaml:"count" job:"zero"`
	// Zone that they run in; one of `resources.zones`. Default the first zone in use.
	Zone string `yaml:"zone"`
	// Bandwidth is each machine's network capacity in one direction. Default the catalog's.
	Bandwidth Bandwidth `yaml:"bandwidth"`
	// Committed is the hourly cost of such a machine under a [Savings Plan or reservation](cost.md#savings-plans-and-reservations).
	// Requires `type`, which must not be a worker type. Default none.
	Committed market.USD `yaml:"committed"`
}

// Auto is written for the policy and for the reliable machines that a plan chooses.
const Auto = "auto"

// Auto reports whether the plan chooses the type.
func (r Reliable) Auto() bool { return r.Type == "" }

// Train is what is trained, on what, for how long.
type Train struct {
	// App is the [application](applications.md): `mf` (matrix factorisation of ratings), `mlr` (softmax regression), `dnn`
	// (multi-layer perceptron), `lda` (topics of documents), or a linear model: `linear`, `ridge`, `lasso`, `robust` (Huber),
	// `logistic`, `svm`. Required.
	App string `yaml:"app" job:"required"`
	// Data is the training data, optionally compressed ([formats](applications.md#data)). Required.
	Data string `yaml:"data" job:"required,env,path"`
	// Holdout is the share of the examples held out for the test loss. Default 0.1.
	Holdout float64 `yaml:"holdout" job:"zero"`
	// Clocks is the number of rounds of work. Default 300 for `mf`, 600 for `mlr` and `dnn`, else 200; training then stops when the test
	// figure no longer improves.
	Clocks int `yaml:"clocks"`
	// Splits is the number of pieces of training data. Default 64, or the number of examples, users or documents if lower.
	Splits int `yaml:"splits"`
	// Partitions is the number of pieces of the parameters. Default 32.
	Partitions int `yaml:"partitions"`
	// Consistency is which updates the work of a clock must see. `bsp`: those of all earlier clocks. `ssp`: all except those of the last
	// `staleness` clocks. `asp`: workers do not wait. Default `bsp`, or `ssp` with a `staleness`.
	Consistency string `yaml:"consistency"`
	// Staleness is how many of the last clocks may be missing with `ssp`. Default 0; 1 with `consistency: ssp`.
	Staleness int `yaml:"staleness"`
	// Deterministic makes the model the same, bit for bit, on any machines. Needs `bsp`. Without it `mf` is several times as fast.
	// Default true with `bsp`, else false.
	Deterministic bool `yaml:"deterministic" job:"zero"`
	// EvaluateEvery is the number of clocks between measurements of the test loss. Default 10.
	EvaluateEvery int `yaml:"evaluate_every"`
	// Stop ends training before all clocks are done; see below. Default none.
	Stop Stop `yaml:"stop"`
	// MaxBadLines is how many bad lines of the data may be skipped. Default 0.
	MaxBadLines int `yaml:"max_bad_lines"`
	// Columns are the names of a table's columns, if its first line does not name them. Default none.
	Columns []string `yaml:"columns"`
	// Ignore are columns of a table to leave out. Default none.
	Ignore []string `yaml:"ignore"`
	// Params are the application's own settings (docs/applications.md). Default none.
	Params map[string]any `yaml:"params"`
}

// Stop says when a model is good enough. The figure is the test figure, or the train figure when nothing is held out, as
// it is measured every Train.EvaluateEvery clocks; lower is better.
type Stop struct {
	// Loss ends training when the figure is at or below it. Default none.
	Loss float64 `yaml:"loss"`
	// MinImprovement ends training when the figure has not improved by this share for more than `patience` clocks. Default none.
	MinImprovement float64 `yaml:"min_improvement"`
	// Patience is how many clocks may pass without such an improvement. Default 0: every measurement must improve.
	Patience int `yaml:"patience"`
	// Time ends training after this market time, or without a market this wall-clock time. Default none.
	Time time.Duration `yaml:"time"`
}

// Rules returns the stopping rules.
func (s Stop) Rules() stopping.Rules {
	r := stopping.Rules{MinImprovement: s.MinImprovement, Patience: int64(s.Patience), Time: s.Time}
	if s.Loss > 0 {
		r.Loss = &s.Loss
	}
	return r
}

// Checkpoint specifies where and how often the state of training is saved while it continues: a run that lost every machine
// that held it, or was killed, continues from there. Model and what follows it declare what saving and restarting cost
// where there is no reliable tier; nothing declared: the dry run says what it assumes (sim.OnStorage).
type Checkpoint struct {
	// To is a directory, `file:///PATH`, `s3://BUCKET/PREFIX` or `gs://BUCKET/PREFIX`, in which a run creates a folder. Default the run's directory.
	To string `yaml:"to" job:"env"`
	// Every is the interval, in wall-clock time; 0s: no saves by time. Default 10s on `local`, else 5m; none with `every_clocks`; under kill and
	// restart the policy's interval.
	Every time.Duration `yaml:"every" job:"zero"`
	// EveryClocks is the interval in clocks. Default none.
	EveryClocks int `yaml:"every_clocks"`
	// Keep is how many checkpoints are kept. Default 2, in case one is damaged.
	Keep int `yaml:"keep"`
	// Model is the size of a checkpoint. Default the trained model's, or 2GB where that is unknown.
	Model Memory `yaml:"model"`
	// Bandwidth is the rate between storage and the whole fleet. Default 100M.
	Bandwidth Rate `yaml:"bandwidth"`
	// Save is how long training stalls for a checkpoint, in market time. Default `model` / `bandwidth`.
	Save time.Duration `yaml:"save"`
	// Restart is how long a complete fleet takes to start working, in market time. Default 30 s with EC2's timing, plus `model` / `bandwidth`.
	Restart time.Duration `yaml:"restart"`
	// Overhead is the fraction by which work on spot machines takes longer, not counting stops. Default 0.
	Overhead float64 `yaml:"overhead"`
}

// The permitted age of parameters that work reads.
const (
	BSP = "bsp"
	SSP = "ssp"
	ASP = "asp"
)

// Stages are the ratios of transient to reliable machines at which training changes stage.
type Stages struct {
	// TwoAbove is the ratio of transient to reliable machines above which transient machines serve parameters. Default 1.
	TwoAbove float64 `yaml:"two_above" job:"zero"`
	// ThreeAbove is the ratio above which reliable machines stop computing. Default 15.
	ThreeAbove float64 `yaml:"three_above" job:"zero"`
	// ServerBytes is the minimum size of a server's part of the model, in bytes. With 0, half of the transient machines always serve. Default
	// 131072.
	ServerBytes int `yaml:"server_bytes" job:"zero"`
}

// defaults returns a job before its file is read. settle sets those that depend on other fields.
func defaults() *Job {
	stages := tiers.DefaultThresholds()
	return &Job{
		Policy:      Auto,
		MaxDuration: 24 * time.Hour,
		Seed:        1,
		Reliable:    Reliable{Count: 1},
		Train: Train{
			Holdout: 0.1, Splits: 64, Partitions: 32, Consistency: BSP, Deterministic: true, EvaluateEvery: 10,
		},
		Stages:     Stages{TwoAbove: stages.TwoAbove, ThreeAbove: stages.ThreeAbove, ServerBytes: tiers.ServerBytes},
		Checkpoint: Checkpoint{Keep: 2},
		Local: Local{
			Rules: "ec2-2017", Speed: 600, Notice: 4 * time.Second, Boot: 500 * time.Millisecond,
			FlopsPerVCPU: 400_000,
		},
	}
}
