// Package elasticity decides for a run: it turns events (prices, notices, losses, arrivals, answers) into actions (buy,
// terminate, move, cut, recover), and journals the reasons. It is one state machine over plain values: no clock, no goroutine,
// no socket. elasticity/runner drives it in real time with real machines; sim drives the same code in simulated time.
//
// elasticity/fleet decides which machines there are, elasticity/training how they train; neither knows the other. Decided here:
// the demand on both (scale, budget), when the run ends, and when a step has nothing to do.
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

// Config configures a Controller. Durations are market time unless said otherwise.
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

	Checkpoints Checkpoints // of committed cuts, while training continues
	// Past makes this a controller that takes a run over; nil = the run begins.
	Past *Past
	// FirstID is beyond all numbers of commands of earlier controllers: their answers must not be taken for those of ours.
	FirstID     uint64
	CutsUnpaced bool          // cut every CutEvery, whatever share of the links deliveries take: for measurements
	AskAgain    time.Duration // an unanswered launch of the previous controller is repeated if it is no older than this
	Chooses     bool          // a launch may name several pools, and the provider chooses
	MaxDuration time.Duration // the run ends in order after this; 0 = never
	Deadline    time.Time     // by which the work should be done, for the policy; zero = none
	Budget      market.USD    // the run ends in order before it costs more; 0 = none
	Overspends  bool          // Budget is for the policy alone
	PerHour     market.USD    // that all machines together may cost in an hour; 0 = no limit
	ValueOfTime market.USD    // of an hour, for the policy; see bidding.Job
	Rules       market.RuleBook
	WholeHours  bool // the rule book bills whole hours: machines work until the end of the paid hour
	Billed      bool // the provider says what machines have cost
	Silent      bool // Step returns no Record, because the journal has no reader; Totals has the figures
	// NoHeartbeats: machines send none, as simulated ones. Silence says nothing about them.
	NoHeartbeats bool
	Bounds       *Bounds         // what a job server lets the run have; nil = it is no job server's
	Tune         *tuning.Options // of a job that is tuned while it trains; nil = it is not
}

// Bounds are a job server's: no request goes beyond the job's own numbers, but its scheduler's.
type Bounds struct {
	// Granted is how many transient machines the scheduler granted a run that begins or resumes, whatever was wanted before; 0 = it rests.
	// Below 0: no scheduler decides about the run.
	Granted int
}

// What a Config is made of.
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
// Invariant: what it does follows from its configuration and the events with their times. So equal events give equal actions in a
// cloud, on a laptop and in simulated time, and a recorded run can be replayed.
//
// Replaced: one state with 76 fields for machines and training. Fleet and training now know each other by Need and by a machine's
// arrival, warning and loss alone, and other trainings use the same fleet.
type Controller struct {
	step     *step.Step
	cfg      Config
	conf     configs
	fleet    *fleet.Fleet
	training *training.Training

	demand     *fleet.Demand
	target     target
	former     string     // what was wanted before the scheduler's grant with which the run resumes; empty = the same
	overBudget string     // why a spending limit forbids transient machines; empty = it does not
	crashLoop  *crashLoop // the run ends because of it
	count      tiers.Counter
	judged     ps.Clock // of the cut that count has seen last
}

// Totals are a run's figures so far.
type Totals struct {
	Machines  int // bought
	Evictions int // machines that the provider took
	Switches  int
	Rollbacks int
	Lost      ps.Clock   // clocks that roll-backs undid
	Clocks    ps.Clock   // done, each once
	Charged   market.USD // of machines that have ended
	Moved     market.USD // of Charged, for state that came from another region
}

// target is the number of machines that the last requests set. The zero value leaves everything to the job.
type target struct {
	asked   bool
	want    bidding.Want // overrides the job's, if set
	servers int          // 0 = as many as the stage has
	// reliable is how many reliable machines there should be; 0 = as many as the job says.
	reliable int
	measured bool // by what was measured, and not by request
	lent     int  // reliable machines beyond that: see lent.go
	leaves   ps.ServerID
	paused   string // by whom; empty = it is not
	// scheduled: a scheduler has paused it. It resumes only that.
	scheduled bool
	since     time.Time
	waiting   []uint64 // requests to answer when the numbers are reached
}

// crashLoop is the end of a run whose agents keep ending by themselves.
type crashLoop struct {
	why string
	log string
}
