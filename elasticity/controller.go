// Package elasticity makes a run's decisions: it turns events (prices, notices, losses, arrivals, answers) into actions
// (buy, terminate, move, cut, recover), and journals the reasons. It is one state machine over plain values: no clock,
// no goroutine, no socket. elasticity/runner drives it in real time with real machines; sim drives the same code in
// simulated time.
//
// elasticity/fleet decides which machines there are, elasticity/training how they train; neither knows the other. This
// package decides the demand on both (scale, budget), when the run ends, and when a step has nothing to do.
package elasticity

import (
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/elasticity/training"
	"github.com/tierml/tierml/elasticity/tuning"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Config configures a Controller. Durations are market time unless stated otherwise.
type Config struct {
	tempo.Settings
	Run      string // names the run in tokens: unique per run
	Job      Job
	Reliable Reliable
	Want     bidding.Want
	Pools    []Pool
	Policy   bidding.Policy
	Stages   tiers.Thresholds
	Load     tiers.LoadRule // zero = the default
	// Grows: the count of reliable machines follows the measured time of cuts, by Count (zero = the default).
	Grows bool
	Count tiers.CountRule

	Checkpoints Checkpoints // for committed cuts, while training continues
	// Past is the record of an earlier controller whose run this one takes over; nil = a new run.
	Past *Past
	// FirstID exceeds all numbers of earlier controllers' commands: answers to those must not be mistaken for answers
	// to ours.
	FirstID     uint64
	CutsUnpaced bool          // cut every CutEvery, whatever share of the links deliveries take: for measurements
	AskAgain    time.Duration // an unanswered launch of the previous controller is repeated if it is not older than this
	Chooses     bool          // a launch may name several pools, of which the provider chooses
	MaxDuration time.Duration // the run ends cleanly after this; 0 = never
	Deadline    time.Time     // when the work must be done, for the policy; zero = none
	Budget      market.USD    // the run ends cleanly before its cost exceeds this; 0 = none
	Overspends  bool          // Budget only informs the policy
	PerHour     market.USD    // limit for the hourly cost of all machines; 0 = none
	ValueOfTime market.USD    // per hour, for the policy; see bidding.Job
	Rules       market.RuleBook
	WholeHours  bool // the rule book bills whole hours: machines work until the end of the paid hour
	Billed      bool // the provider reports what machines cost
	Silent      bool // Step returns no Record, because the journal has no reader; Totals has the figures
	// NoHeartbeats: machines send none, as in a simulation. Their silence means nothing.
	NoHeartbeats bool
	Bounds       *Bounds         // limits set by a job server; nil = none
	Tune         *tuning.Options // for a job that is tuned while it trains; nil = no tuning
}

// Bounds are set by a job server: only its scheduler's requests may exceed the job's own numbers.
type Bounds struct {
	// Granted is how many transient machines the scheduler granted a run that starts or resumes, whatever was wanted
	// before; 0 = the run pauses. Negative: there is no scheduler.
	Granted int
}

// The parts of a Config.
type (
	Job         = training.Job
	Checkpoints = training.Checkpoints
	Kept        = training.Kept
	Reliable    = fleet.Reliable
	Pool        = fleet.Pool
)

// configs are a Config's parts for the fleet and for training.
type configs struct {
	fleet    *fleet.Config
	training *training.Config
}

// fleet returns the part about machines.
func (c *Config) fleet() *fleet.Config {
	saved := c.Checkpoints
	upkeep := market.USD(c.Reliable.Count) * c.Reliable.Type.OnDemand
	if c.Rules != nil {
		upkeep = c.Rules.Terms().Fees.Due(c.Reliable.Pool, upkeep)
	}
	f := &fleet.Config{
		Run: c.Run, Reliable: c.Reliable, Want: c.Want, Pools: c.Pools, Policy: c.Policy,
		Settings: c.Settings, Substitutes: saved.Place != "" && (saved.Every > 0 || saved.EveryClocks > 0),
		AskAgain: c.AskAgain, Chooses: c.Chooses, Rules: c.Rules, WholeHours: c.WholeHours, Billed: c.Billed, Firm: c.Job.Short,
		Job: bidding.Job{Deadline: c.Deadline, Budget: c.Budget, Overspends: c.Overspends, PerHour: c.PerHour, Work: c.Job.Work, Splits: c.Job.Schema.Splits,
			Upkeep:       upkeep,
			ValueOfTime:  c.ValueOfTime,
			ReliableRate: float64(c.Reliable.Count) * c.Reliable.Type.WorkRate(),
			Startup:      c.Startup, Notice: c.Notice, Handover: c.JoinWait + c.NoticeWait, Leave: c.DrainMargin},
	}
	if c.Past != nil {
		f.Past = &c.Past.Ledger
	}
	return f
}

// ForTraining returns the part about the work.
func (c *Config) ForTraining() *training.Config {
	t := &training.Config{
		Job: c.Job, Stages: c.Stages, Load: c.Load, Checkpoints: c.Checkpoints, FirstID: c.FirstID,
		Settings: c.Settings, CutsUnpaced: c.CutsUnpaced, Tune: c.Tune,
	}
	if c.Past != nil {
		t.Past = &c.Past.Log
	}
	return t
}

// Controller is the state of a run: its fleet, its training, and the demand on both. It is not safe for concurrent use: one
// driver steps it.
//
// Invariant: its behaviour is determined by its configuration and the events with their times. So equal events give
// equal actions in a cloud, on a laptop and in simulated time, and a recorded run can be replayed.
//
// Replaced: one state with 76 fields for machines and training. Fleet and training now only share Need and a machine's
// arrival, warning and loss, and other kinds of training use the same fleet.
type Controller struct {
	step     *step.Step
	cfg      Config
	conf     configs
	fleet    *fleet.Fleet
	training *training.Training

	demand     *fleet.Demand
	target     target
	former     string     // wanted numbers before the scheduler's grant with which the run resumes; empty = the same
	overBudget string     // why a spending limit forbids transient machines; empty = it does not
	crashLoop  *crashLoop // if set, the run ends because of it
	count      tiers.Counter
	judged     ps.Clock // the last cut that count has seen
}

// Totals are a run's figures so far.
type Totals struct {
	Machines  int // machines bought
	Evictions int // machines that the provider reclaimed
	Switches  int
	Rollbacks int
	Lost      ps.Clock   // clocks that roll-backs undid
	Clocks    ps.Clock   // done, each counted once
	Charged   market.USD // for machines that have ended
	Moved     market.USD // part of Charged: transfer of state from another region
}

// target is the number of machines that the last requests set. The zero value leaves everything to the job.
type target struct {
	asked   bool
	want    bidding.Want // overrides the job's, if set
	servers int          // 0 = as many as the stage has
	// reliable is the wanted number of reliable machines; 0 = the job's.
	reliable int
	measured bool // from measurements, not a request
	lent     int  // additional reliable machines: see lent.go
	leaves   ps.ServerID
	paused   string // who paused it; empty = not paused
	// scheduled: the pause is a scheduler's. A scheduler resumes only such pauses.
	scheduled bool
	since     time.Time
	waiting   []uint64 // requests to answer when the numbers are reached
}

// crashLoop is the end of a run whose agents keep crashing.
type crashLoop struct {
	why string
	log string
}
