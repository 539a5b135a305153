// Package elasticity is the deciding core of a run: it turns what happens (prices, notices, losses,
// arrivals, answers) into what to do (buy, terminate, move, cut, recover), and writes down why. It is one
// state machine over plain values: no clock, no goroutine, no socket. elasticity/runner drives it in real time
// with real machines; sim drives the same code in simulated time.
//
// It composes market, bidding, provisioner, ps and tiers; nothing of those knows it.
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

// Totals tells what the run has come to so far.
func (c *Controller) Totals() Totals {
	f, t := c.fleet.Totals, c.training.Totals
	return Totals{Machines: f.Machines, Evictions: f.Evictions, Switches: f.Switches, Rollbacks: t.Rollbacks, Lost: t.Lost,
		Clocks: c.training.Clocks.Done, Charged: c.fleet.Charged()}
}

// New returns a controller; its first Step launches the reliable machines.
func New(cfg Config) *Controller {
	if cfg.NoHeartbeats {
		cfg.DeadAfter = unjudged
	}
	c := &Controller{cfg: cfg, step: &step.Step{Awake: step.NewAwake(cfg.DeadAfter), Speed: cfg.Speed, Silent: cfg.Silent}, demand: &fleet.Demand{}}
	c.step.OnEnd = func(why string) {
		c.training.CutShort()
		c.fleet.End(why)
	}
	c.conf = configs{c.cfg.fleet(), c.cfg.training()}
	c.fleet = fleet.New(c.conf.fleet, c.step, c.demand)
	c.training = training.New(c.conf.training, c.step, c.fleet)
	if cfg.Past != nil {
		c.wish, c.demand.Paused = wishOf(cfg.Past.Wish), cfg.Past.Paused
	}
	c.ask()
	c.fleet.Serve(c.training)
	return c
}

// Step takes in an event and gives what to do about it, in order. The slice is good until the next Step. Time never goes back,
// and may leap: the driver was stopped.
func (c *Controller) Step(now time.Time, e Event) []Action {
	c.step.Begin(now)
	if c.step.Finished {
		return nil
	}
	if c.step.Started.IsZero() {
		c.begin()
	}
	if _, price := e.(PriceChanged); !price {
		c.fleet.Stale()
	}
	if c.take(e) || c.step.Stirred || !now.Before(c.step.RestUntil) {
		c.advance()
	} else if c.fleet.PlanDue() {
		c.plan()
	}
	return c.step.Actions()
}

func (c *Controller) begin() {
	c.step.Started = c.step.Now
	if past := c.cfg.Past; past != nil && !past.Started.IsZero() {
		c.step.Started = past.Started
	}
	c.training.Begin()
	c.fleet.Begin()
}

// take takes an event in. It reports whether there may be something to do about it beside planning: see rest.go.
func (c *Controller) take(e Event) (stirs bool) {
	switch e := e.(type) {
	case PriceChanged:
		c.fleet.TakePrice(e)
		return false
	case CapacityChanged:
		c.fleet.TakeCapacity(e)
		return false
	case Reported:
		return c.training.TakeReport(e.ID, e.Report)
	case Wake:
		return false
	case PricesKnown:
		c.fleet.TakePricesKnown(e)
	case Launched:
		c.fleet.TakeLaunched(e)
	case LaunchFailed:
		c.fleet.TakeLaunchFailed(e)
	case Listed:
		return c.fleet.TakeListed(e)
	case InstanceEnded:
		c.fleet.TakeEnded(e.Instance)
	case Warned:
		return c.fleet.TakeWarned(e)
	case Disconnected:
		c.training.Disconnected(e.ID)
		return false
	case StopWanted:
		if c.step.Stop == "" {
			c.step.Stop = e.Why
		}
		if e.Now && !c.step.Ending {
			c.step.Outcome = "interrupted"
			c.step.End(e.Why)
		}
	case ScaleWanted:
		c.takeScale(e)
	case BudgetSpoke:
		c.takeBudget(e)
	case Exported:
		c.training.TakeExported(e)
	case ManifestWritten:
		c.training.Saves.TakeManifest(e)
	case SaveWanted:
		c.training.SaveNow()
	}
	return true
}

// State is what the policy sees now. Its slices are good until the next Step, and not to be changed.
func (c *Controller) State() bidding.State { return c.fleet.State() }
