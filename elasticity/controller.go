// Package elasticity is the deciding core of a run: it turns what happens (prices, notices, losses,
// arrivals, answers) into what to do (buy, terminate, move, cut, recover), and writes down why. It is one
// state machine over plain values: no clock, no goroutine, no socket. elasticity/runner drives it in real time
// with real machines; sim drives the same code in simulated time.
//
// It composes two brains: elasticity/fleet decides which machines there are, elasticity/training how they train. Neither knows
// the other. What is left to decide here is what both are asked for (scale, budget), when the run ends, and when nothing is to do.
package elasticity

import (
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/tempo"
	"github.com/tierml/tierml/elasticity/training"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Config is what a controller needs to know beforehand. Durations are market time unless said otherwise.
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

	Checkpoints Checkpoints // of committed cuts, while training goes on
	// Past makes this a controller that takes a run over; nil = the run begins.
	Past *Past
	// FirstID is beyond all numbers of commands of earlier controllers: their answers must not be taken for those of ours.
	FirstID uint64
	// FirstGeneration and FirstIncarnation are beyond those of earlier controllers that do not take each other over, each of
	// which began with machines that knew nothing (elasticity/restart).
	FirstGeneration  ps.Generation
	FirstIncarnation ps.Incarnation

	CutsUnpaced bool          // always CutEvery after the last, whatever share of the links deliveries take: to measure what that does
	AskAgain    time.Duration // a launch that the controller before decided within that time, and has no answer to, is asked for again
	Chooses     bool          // the provider takes launches of several pools, and chooses
	MaxDuration time.Duration // the run ends in order after this; 0 = never
	Deadline    time.Time     // by which the work should be done, for the policy; zero = none
	Budget      market.USD    // that the run should keep to, for the policy; 0 = none
	PerHour     market.USD    // that all machines together may cost in an hour; 0 = no limit
	Rules       market.RuleBook
	WholeHours  bool // the rule book bills whole hours: what is paid for is worked to its end
	Silent      bool // nobody reads the journal: Step gives no Record. Totals tells what the run comes to
	// NoHeartbeats: machines send none, as simulated ones. Silence says nothing about them.
	NoHeartbeats bool
}

// What a Config is made of.
type (
	Job         = training.Job
	Checkpoints = training.Checkpoints
	Kept        = training.Kept
	Reliable    = fleet.Reliable
	Pool        = fleet.Pool
)

// configs are what of a Config the two go by.
type configs struct {
	fleet    *fleet.Config
	training *training.Config
}

// fleet is what of it concerns machines.
func (c *Config) fleet() *fleet.Config {
	saved := c.Checkpoints
	f := &fleet.Config{
		Run: c.Run, Reliable: c.Reliable, Want: c.Want, Pools: c.Pools, Policy: c.Policy, Work: c.Job.Work, FirstNumber: int(c.FirstIncarnation),
		Settings: c.Settings, Substitutes: saved.Place != "" && (saved.Every > 0 || saved.EveryClocks > 0),
		AskAgain: c.AskAgain, Chooses: c.Chooses, Deadline: c.Deadline, Budget: c.Budget, PerHour: c.PerHour, Rules: c.Rules, WholeHours: c.WholeHours,
	}
	if c.Past != nil {
		f.Past = &c.Past.Ledger
	}
	return f
}

// training is what of it concerns the work.
func (c *Config) training() *training.Config {
	t := &training.Config{
		Job: c.Job, Stages: c.Stages, Load: c.Load, Checkpoints: c.Checkpoints, FirstID: c.FirstID, FirstGeneration: c.FirstGeneration,
		Settings: c.Settings, CutsUnpaced: c.CutsUnpaced,
	}
	if c.Past != nil {
		t.Past = &c.Past.Log
	}
	return t
}

// Controller is the state of a run: a fleet, the training on it, and what both are asked for. It is not safe for concurrent
// use: one driver steps it.
type Controller struct {
	step     *step.Step
	cfg      Config
	conf     configs
	fleet    *fleet.Fleet
	training *training.Training

	demand    *fleet.Demand
	wish      wish
	crashLoop *crashLoop // the run ends because of it
}

// Totals is what a run has come to so far.
type Totals struct {
	Machines  int // bought
	Evictions int // machines that the provider took
	Switches  int
	Rollbacks int
	Lost      ps.Clock   // clocks that roll-backs undid
	Clocks    ps.Clock   // done, each once
	Charged   market.USD // of machines that have ended
}

// wish is what was asked for by people or schedulers. The zero value leaves everything to the job.
type wish struct {
	asked   bool
	want    bidding.Want // in place of the job's, if asked
	servers int          // 0 = as many as the stage has
	// reliable is how many reliable machines there should be; 0 = as many as the job says.
	reliable int
	since    time.Time
	waiting  []uint64 // requests that are to be told when it is so
}

// crashLoop is the end of a run whose agents keep ending by themselves.
type crashLoop struct {
	why string
	log string
}
