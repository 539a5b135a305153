// Package planner works out what a run will do before anything starts: which pools are considered and why, what the run will cost and how
// long it will take (with a range and what the range rests on), and what the same work would cost on demand.
//
// It only computes with values. The bidding.Policy that the run will use chooses the pools; the planner only shows its choice. It does not
// know where prices come from or what an application computes: it is given histories, an amount of work and a rate.
package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/market"
)

// Input is everything on which a plan is based.
type Input struct {
	Name   string // of the job
	Now    time.Time
	Policy bidding.Policy
	Want   bidding.Want
	// Pools are the spot pools that the job allows, sorted by pool. Points after Now are ignored.
	Pools []bidding.Candidate
	// Capacity is the maximum number of machines in a pool; pools without an entry have no known limit.
	Capacity map[market.Pool]int
	// Chooses means that the provider chooses among several pools offered to it.
	Chooses  bool
	Reliable Fleet
	// OnDemand is what the plan is compared with.
	OnDemand OnDemand
	Rules    market.RuleBook

	// Work is the whole job's, in floating-point operations.
	Work float64
	// Splits is the number of pieces in each clock's work; 0 = it is a program.
	Splits int
	// RatePerVCPU is the speed of one vCPU, in floating-point operations per second of market time.
	RatePerVCPU float64
	// Tempo has the run's time constants.
	Tempo tempo.Settings
	// SaveTime, RestartTime and SaveEvery are for policies by kill and restart, in market time: how long a checkpoint takes, how long a
	// fleet takes from its agents' first call until it works, and how often the job saves, 0 = as its policy wants.
	SaveTime, RestartTime, SaveEvery time.Duration
	// State is the size of a checkpoint in bytes; 0 = unknown.
	State int64
	// Undone and Together are for programs: see bidding.Job.
	Undone   time.Duration
	Together bool

	// Program is one of the user's own; nil = an application is trained.
	Program *Program

	Budget      market.USD    // 0 = none
	PerHour     market.USD    // of all machines; 0 = no limit
	ValueOfTime market.USD    // per hour; 0 = only cost counts
	MaxDuration time.Duration // market time; 0 = none
	Deadline    time.Time     // market time; zero = none

	// Tuning says what is tuned during training, or why nothing is; empty = the job does not request it.
	Tuning string

	// Sources describes where the prices come from and how old they are, for people.
	Sources []string
	// ZoneIDs are the ids of zones whose names are specific to an account.
	ZoneIDs map[string]string
	// Warnings are about what the market does not allow, for people.
	Warnings []string
}

// Fleet is a number of machines of one pool.
type Fleet struct {
	Pool  market.Pool
	Type  market.InstanceType
	Count int
}

// OnDemandType is a type and where it can be bought on demand.
type OnDemandType struct {
	Pool market.Pool
	Type market.InstanceType
}

// Plan is the forecast for a run.
type Plan struct {
	Input    Input
	Pools    []Pool
	Why      string // the policy's summary
	Forecast Forecast
	OnDemand OnDemand
	Memory   Memory
	Exchange Exchange // per round, for a job on tiers
	Sizing   Sizing   // of the reliable tier
	Choice   *Choice  // of the policy; nil = the job names it
	Warnings []string
	// Assumed are the values that the job leaves open, as its file would state them.
	Assumed []config.Assumption
	// Prediction is for the job's own start; nil = it was not made.
	Prediction *Prediction
	Worth      *Worth // nil = nothing is compared
	Own        Own
}

// Pool is a pool that was considered.
type Pool struct {
	bidding.Considered
	// Capacity is its maximum number of machines; Limited is false if no limit is known.
	Capacity int
	Limited  bool
	Hints    bidding.Hints // that were known before the run
}

// Saving returns the share of the on-demand price that the spot price saves; false if either is unknown.
func (p Pool) Saving() (float64, bool) {
	if !p.HasPrice || p.OnDemand <= 0 {
		return 0, false
	}
	return 1 - float64(p.Price)/float64(p.OnDemand), true
}

// OnDemand is the undisturbed work on the cheapest fleet without spot machines, at the pace of the plan's own simulations, without start-up
// or rounding to hours. That is less than a real on-demand run would pay, so that savings are not exaggerated.
type OnDemand struct {
	Fleet Fleet
	Time  time.Duration
	Cost  market.USD
	// Beside is the part of a clock's time on that fleet that is not computing, in market time: exchanging parameters, waiting.
	Beside time.Duration
}

// Estimator says what a run would cost and how long it would take.
type Estimator interface {
	Estimate(Input) (Forecast, error)
}

// Make computes the plan.
func Make(in Input, estimator Estimator) (*Plan, error) {
	if err := in.check(); err != nil {
		return nil, fmt.Errorf("planning: %w", err)
	}
	in.Pools = knownAt(in.Pools, in.Now)
	state := bidding.State{Now: in.Now, Want: in.Want, Job: in.job(in.Now, 0), Pools: in.Pools, Chooses: in.Chooses}
	chosen := bidding.Ask(in.Policy, state)
	p := &Plan{Input: in, Why: chosen.Why, OnDemand: in.OnDemand}
	if in.PerHour > 0 {
		state.Job.PerHour = 0
		p.crowdedOut(machinesOf(chosen), machinesOf(bidding.Ask(in.Policy, state)))
	}
	for i, c := range chosen.Considered { // in the order of the candidates
		capacity, limited := in.Capacity[c.Pool]
		p.Pools = append(p.Pools, Pool{Considered: c, Capacity: capacity, Limited: limited, Hints: in.Pools[i].Hints})
	}
	var err error
	if p.Forecast, err = estimator.Estimate(in); err != nil {
		return nil, fmt.Errorf("planning: expected cost and time: %w", err)
	}
	p.Warnings = append(append(p.Warnings, p.warn()...), in.Warnings...)
	return p, nil
}

func machinesOf(p bidding.Plan) (n int) {
	for _, a := range p.Acquire {
		n += a.Count
	}
	return n
}

// crowdedOut warns of an hourly limit that keeps the fleet small from the start.
func (p *Plan) crowdedOut(bought, wanted int) {
	switch {
	case bought >= wanted:
	case bought == 0 && p.Input.restarts():
		p.Warnings = append(p.Warnings, fmt.Sprintf("limits.per_hour, %s, has no room for a whole fleet of %d machines at the prices of the start: nothing "+
			"is trained until prices fall", p.Input.PerHour.Cents(), wanted))
	default:
		p.Warnings = append(p.Warnings, fmt.Sprintf("limits.per_hour, %s, has room for %d of %d machines at the prices of the start", p.Input.PerHour.Cents(), bought, wanted))
	}
}

func (in Input) check() error {
	switch {
	case !(in.Work > 0):
		return fmt.Errorf("work is %v floating-point operations; it must be above zero", in.Work)
	case !(in.RatePerVCPU > 0):
		return fmt.Errorf("a vCPU does %v operations per second; it must be above zero", in.RatePerVCPU)
	case in.Reliable.Count < 0 || in.Reliable.Count > 0 && in.Reliable.Type.VCPU < 1:
		return fmt.Errorf("%d reliable machines of %s with %d vCPUs; there must be at least one of each",
			in.Reliable.Count, in.Reliable.Type.Name, in.Reliable.Type.VCPU)
	case in.OnDemand.Fleet.Count == 0:
		return fmt.Errorf("no machine type is on sale on demand")
	}
	return nil
}

// restarts reports whether the policy uses no reliable tier.
func (in Input) restarts() bool {
	_, restarts := in.Policy.(bidding.ByRestart)
	return restarts
}

// onDemand reports whether the reliable machines are the whole fleet.
func (in Input) onDemand() bool {
	_, all := in.Policy.(bidding.OnDemand)
	return all && in.Program == nil
}

// job returns the policy's view of the job, given its start and the work done.
func (in Input) job(started time.Time, done float64) bidding.Job {
	vcpuHours := func(work float64) float64 { return work / in.RatePerVCPU / time.Hour.Seconds() }
	reliable := in.Reliable
	s := in.Tempo
	j := bidding.Job{
		Started: started, Deadline: in.Deadline, Budget: in.Budget, PerHour: in.PerHour, Work: vcpuHours(in.Work), Done: vcpuHours(done), Splits: in.Splits,
		Upkeep:       in.Rules.Terms().Fees.Due(reliable.Pool, market.USD(reliable.Count)*reliable.Type.OnDemand),
		ValueOfTime:  in.ValueOfTime,
		ReliableRate: float64(reliable.Count) * reliable.Type.WorkRate(),
		Startup:      s.Startup, Notice: s.Notice, Terms: in.Rules.Terms(),
	}
	if in.restarts() {
		j.Startup, j.SaveTime, j.SaveEvery, j.Lag = s.Startup-s.Begin+in.RestartTime, in.SaveTime, in.SaveEvery, s.Lag
		j.Undone, j.Together = in.Undone, in.Together
	} else {
		j.Handover = s.JoinWait + s.NoticeWait
	}
	j.Leave = s.DrainMargin
	return j
}

// knownAt hides what is not known yet.
func knownAt(pools []bidding.Candidate, now time.Time) []bidding.Candidate {
	known := make([]bidding.Candidate, len(pools))
	for i, c := range pools {
		c.History = c.History.Until(now)
		known[i] = c
	}
	return known
}

// warn says which of the job's limits the plan's middle estimate cannot meet.
func (p *Plan) warn() []string {
	var warnings []string
	if of := p.Input.Program; of != nil {
		for _, doubt := range []string{of.tooLarge(), of.beyondMemory(p.Input.Pools)} {
			if doubt != "" {
				warnings = append(warnings, doubt)
			}
		}
	}
	if uneven := p.uneven(); uneven != "" {
		warnings = append(warnings, uneven)
	}
	if regions := p.regions(); regions != "" {
		warnings = append(warnings, regions)
	}
	in, cost, duration := p.Input, p.Forecast.Cost, p.Forecast.Time
	if in.Budget > 0 && cost.Known && cost.Middle > in.Budget {
		warnings = append(warnings, fmt.Sprintf(
			"the expected cost, %s, is above the budget, %s: the run would be ended before it is done", cost.Middle.Cents(), in.Budget.Cents()))
	}
	if end := in.Now.Add(duration.Middle); !in.Deadline.IsZero() && duration.Known && end.After(in.Deadline) {
		warnings = append(warnings, fmt.Sprintf(
			"the expected end, %s, is after the deadline, %s", end.UTC().Format(timeForm), in.Deadline.UTC().Format(timeForm)))
	}
	if in.MaxDuration > 0 && duration.Known && duration.Middle > in.MaxDuration {
		warnings = append(warnings, fmt.Sprintf(
			"the expected time, %s, is above max_duration, %s: the run would be ended before it is done",
			short(duration.Middle), short(in.MaxDuration)))
	}
	if cost.Known && cost.Middle >= p.OnDemand.Cost && !in.onDemand() {
		warnings = append(warnings, fmt.Sprintf(
			"the expected cost, %s, is no less than on demand, %s", cost.Middle.Cents(), p.OnDemand.Cost.Cents()))
	}
	return warnings
}

// regions warns of pools in several regions: an installation, like the fake cloud, is in one.
func (p *Plan) regions() string {
	var regions []string
	for _, c := range p.Input.Pools {
		if !slices.Contains(regions, c.Pool.Region) {
			regions = append(regions, c.Pool.Region)
		}
	}
	if len(regions) < 2 {
		return ""
	}
	said := fmt.Sprintf("the pools are in %s: a run buys in one region only, and `tierml dry-run` compares them", strings.Join(regions, ", "))
	if in := p.Input; in.restarts() && in.State > 0 {
		said += fmt.Sprintf(". Each move of the state there, %.3g GB, costs %s", float64(in.State)/1e9, in.Rules.Terms().Fees.Moving(in.State).Cents())
	}
	return said
}

// uneven warns about machines that are counted although their types differ in size: the same number makes a fleet twice
// as fast, and twice as expensive, with one type as with another. Programs count machines for a reason: ranks, or tasks
// at a time.
func (p *Plan) uneven() string {
	n := p.Input.Want.Machines
	if n == 0 || p.Input.Program != nil || len(p.Input.Pools) == 0 {
		return ""
	}
	size := func(a, b bidding.Candidate) int {
		return cmp.Or(cmp.Compare(a.Type.VCPU, b.Type.VCPU), cmp.Compare(a.Type.Name, b.Type.Name))
	}
	small, large := slices.MinFunc(p.Input.Pools, size).Type, slices.MaxFunc(p.Input.Pools, size).Type
	if small.VCPU == 0 || small.VCPU == large.VCPU {
		return ""
	}
	return fmt.Sprintf("resources.count: %d is %d vCPUs of %s and %d of %s; resources.vcpu: %d in its place buys as much of every type",
		n, n*small.VCPU, small.Name, n*large.VCPU, large.Name, n*small.VCPU)
}

const timeForm = "2006-01-02 15:04"
