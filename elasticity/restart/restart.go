// Package restart is training by kill and restart, the usual way to use spot machines without a reliable tier: a fleet trains and saves
// checkpoints. When any machine goes, training stops until the fleet is complete again and has read the last checkpoint. It is the baseline
// of TierML (CMU-PDL-16-102, section 4).
//
// Attempts decides about teams, checkpoints, and repeated work. It does not know how a team trains or what a checkpoint contains: that is
// up to its Trainer, which may use elasticity/training or leave it to the driver. As in any run, elasticity/fleet manages the machines.
// Controller combines these behind the same methods as elasticity.Controller; it accepts any Work, not only Attempts.
//
// Each file uses only those before it: config, attempts, driven, tiered, restart.
package restart

import (
	"cmp"
	"errors"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
)

// Work is the work of a fleet without a reliable tier: Attempts, or another package's.
type Work interface {
	fleet.Work
	// Begin is called before the first step, CutShort when the run has ended and all machines are being terminated.
	Begin()
	CutShort()
	// Take processes an event.
	Take(e step.Event)
	// CheckSilence gives up machines that fail the work. Advance does whatever else the state now requires, after purchases; NextDue calls
	// by with each time at which something is due even without events.
	CheckSilence()
	Advance()
	NextDue(by func(time.Time))
	// Busy reports whether a graceful end has to wait: something is being saved, or machines of an earlier controller are still unknown.
	Busy() bool
	// Clock returns the work's progress, for the last line of the journal; 0 = it does not count in clocks.
	Clock() ps.Clock
	// Sum adds the work's own figures: roll-backs, work done and work lost.
	Sum(*elasticity.Totals)
}

// Controller is the state of a run. It is not safe for concurrent use: one driver steps it.
type Controller struct {
	step     *step.Step
	cfg      Config
	fleet    *fleet.Fleet
	work     Work
	crashLog string // of the agent whose crash ends the run
}

// New returns a controller; its first Step requests a fleet from the policy.
func New(cfg Config, by func(*Attempts) Trainer) *Controller {
	return newWith(cfg, func(s *step.Step, f *fleet.Fleet, _ *fleet.Demand) Work {
		a := newAttempts(&cfg, s, f)
		a.trainer = by(a)
		return attempting{a}
	})
}

// NewForPrograms returns a controller of programs, whose work may change the demand for machines.
func NewForPrograms(cfg Config, work func(*step.Step, *fleet.Fleet, *fleet.Demand) Work) *Controller {
	cfg.Job.Program = true
	return newWith(cfg, work)
}

func newWith(cfg Config, work func(*step.Step, *fleet.Fleet, *fleet.Demand) Work) *Controller {
	c := &Controller{cfg: cfg, step: &step.Step{Awake: step.NewAwake(cfg.BootWithin), Speed: cfg.Speed, Silent: cfg.Silent}}
	demand := &fleet.Demand{Workers: cfg.Want}
	c.fleet = fleet.New(c.cfg.fleet(), c.step, demand)
	c.work = work(c.step, c.fleet, demand)
	c.step.OnEnd = func(why string) {
		c.work.CutShort()
		c.fleet.End(why)
	}
	c.fleet.Serve(c.work)
	return c
}

// attempting adapts Attempts to Work.
type attempting struct{ *Attempts }

func (a attempting) Begin()                     { a.begin() }
func (a attempting) CutShort()                  { a.cutShort() }
func (a attempting) Take(e step.Event)          { a.take(e) }
func (a attempting) Clock() ps.Clock            { return a.saved }
func (a attempting) Advance()                   { a.advance() }
func (a attempting) NextDue(by func(time.Time)) { a.nextDue(by) }
func (a attempting) Busy() bool                 { return a.now != nil || a.takingOver }
func (a attempting) Sum(totals *elasticity.Totals) {
	totals.Rollbacks, totals.Lost, totals.Clocks = a.rollbacks, a.lost, a.saved
}

func (a attempting) CheckSilence() {
	a.giveUp()
	a.trainer.Advance()
}

// Step takes events and returns what to do about them, in order. The slice is valid until the next Step.
func (c *Controller) Step(now time.Time, events ...elasticity.Event) []elasticity.Action {
	c.step.Begin(now)
	if c.step.Finished {
		return nil
	}
	if c.step.Started.IsZero() {
		c.begin()
	}
	for _, e := range events {
		switch e.(type) {
		case elasticity.PriceChanged, elasticity.PricesKnown, elasticity.Wake, elasticity.Trained, elasticity.Saved:
		default: // anything else may change the fleet
			c.fleet.View.Stale()
		}
		c.take(e)
	}
	c.advance()
	if len(c.step.Actions()) > 0 { // the actions change the fleet
		c.fleet.View.Stale()
	}
	return c.step.Actions()
}

func (c *Controller) begin() {
	c.step.Started = c.step.Now
	if past := c.cfg.Past; past != nil && !past.Started.IsZero() {
		c.step.Started = past.Started
	}
	c.fleet.Begin()
	c.work.Begin()
}

func (c *Controller) take(e elasticity.Event) {
	switch e := e.(type) {
	case elasticity.StopWanted:
		c.step.Stop = cmp.Or(c.step.Stop, e.Why)
		if e.Now && !c.step.Ending {
			c.step.Outcome = "interrupted"
			c.step.End(e.Why)
		}
	case elasticity.BudgetChanged:
		c.takeBudget(e)
	case elasticity.ScaleWanted:
		err := errors.New("a run by kill and restart has the whole fleet or none")
		if work, ok := c.work.(interface {
			Cancel(program, by string) error
		}); ok && e.Cancel != "" {
			err = work.Cancel(e.Cancel, e.By)
		}
		c.step.Do(elasticity.Scaled{ID: e.ID, Err: err})
	default:
		c.fleet.Take(e)
		c.work.Take(e)
	}
}

// takeBudget ends the run cleanly: without a reliable tier, nothing can continue to train at lower cost.
func (c *Controller) takeBudget(e elasticity.BudgetChanged) {
	if e.Do == elasticity.BudgetWarns {
		c.step.Record(func() journal.Entry {
			return journal.Entry{Kind: journal.Budget, To: journal.Warned, USD: e.USD.String(), Why: e.Why}
		})
	}
	if e.Do == elasticity.BudgetPauses {
		c.step.Stop = cmp.Or(c.step.Stop, e.Why)
	}
}

// advance does whatever the state now requires. Each part depends only on the state, so that their order affects only latency.
func (c *Controller) advance() {
	if c.cfg.MaxDuration > 0 && c.step.Stop == "" && c.step.Now.Sub(c.step.Started) >= c.cfg.MaxDuration {
		c.step.Stop = "max_duration " + c.cfg.MaxDuration.String() + " is over"
	}
	c.fleet.Spending.Keep()
	c.work.CheckSilence()
	if why, crash, loop := c.fleet.Crashes().Loop(); loop && !c.step.Ending { // earlier saves remain
		c.crashLog = crash.Log
		c.step.Fail(why)
	}
	c.fleet.Buy()
	c.work.Advance()
	c.fleet.Retire()
	c.fleet.Charge()
	c.end()
}

// end finishes once every machine has ended and no launch is unanswered.
func (c *Controller) end() {
	if c.step.Stop != "" && !c.work.Busy() && !c.step.Ending {
		c.step.Outcome = "interrupted"
		c.step.End(c.step.Stop)
	}
	if !c.step.Ending || !c.fleet.Over() {
		return
	}
	c.step.Finished = true
	why := cmp.Or(c.step.FailWhy, c.step.Stop, c.step.Enough)
	c.step.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.Done, Outcome: c.step.Outcome, Clock: int64(c.work.Clock()), Why: why, Log: c.crashLog}
	})
	c.step.Do(elasticity.Finish{Outcome: c.step.Outcome, Why: why})
}

// NextWake returns the latest time for the next Step. It is always after the last Step.
func (c *Controller) NextWake() time.Time {
	now := c.step.Now
	wake := c.fleet.LatestWake()
	by := func(t time.Time) {
		if t.After(now) && t.Before(wake) {
			wake = t
		}
	}
	by(c.fleet.NextPlan)
	if c.cfg.MaxDuration > 0 {
		by(c.step.Started.Add(c.cfg.MaxDuration))
	}
	if c.step.Ending { // waiting for the last prices
		by(c.step.Awake.NextBeat())
	}
	c.fleet.NextDue(by)
	c.work.NextDue(by)
	return wake
}

// State returns what the policy sees now. Its slices are valid until the next Step, and must not be changed.
func (c *Controller) State() bidding.State { return c.fleet.View.State() }

// Totals returns the run's figures so far.
func (c *Controller) Totals() elasticity.Totals {
	f := c.fleet.Totals
	t := elasticity.Totals{Machines: f.Machines, Evictions: f.Evictions, Charged: c.fleet.Accounts.Charged, Moved: c.fleet.Accounts.Moved}
	c.work.Sum(&t)
	return t
}
