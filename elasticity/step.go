package elasticity

import (
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/training"
	"github.com/tierml/tierml/tiers"
)

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
	c.conf = configs{c.cfg.fleet(), c.cfg.ForTraining()}
	c.fleet = fleet.New(c.conf.fleet, c.step, c.demand)
	c.training = training.New(c.conf.training, c.step, c.fleet)
	if cfg.Past != nil {
		c.target, c.overBudget = targetOf(cfg.Past.Target), cfg.Past.Paused
	}
	c.takeGrant()
	c.setDemand()
	c.fleet.Serve(c.training)
	return c
}

// Step takes events and returns what to do about them, in order. The slice is valid until the next Step. Time never goes back, but may jump
// if the driver was suspended. Simultaneous events belong in one step: a thousand notices are one decision.
//
//  1. take hands each event to the fleet or to training, which note it and report whether something may be due.
//  2. If so, or when something falls due by time, advance does what is due, once for all events.
//  3. Otherwise the policy decides, if that is due. Most steps end here (rest.go), which makes dry runs fast.
func (c *Controller) Step(now time.Time, events ...Event) []Action {
	c.step.Begin(now)
	if c.step.Finished {
		return nil
	}
	if c.step.Started.IsZero() {
		c.begin()
	}
	for _, e := range events {
		due := c.take(e)
		if due || !leavesMachines(e) {
			c.fleet.View.Stale()
		}
		c.step.Pending = c.step.Pending || due
	}
	if c.step.Pending || !now.Before(c.step.RestUntil) {
		c.advance()
	} else if c.fleet.PlanDue() {
		c.plan()
	}
	return c.step.Actions()
}

// leavesMachines reports whether an event after which nothing is due leaves every machine unchanged. The policy decides every minute, and
// examining a thousand machines costs more than its answer.
func leavesMachines(e Event) bool {
	switch e := e.(type) {
	case PriceChanged, Wake:
		return true
	case Reported:
		_, progress := e.Report.(tiers.Progress)
		return progress
	}
	return false
}

func (c *Controller) begin() {
	c.step.Started = c.step.Now
	if past := c.cfg.Past; past != nil && !past.Started.IsZero() {
		c.step.Started = past.Started
	}
	if c.former != "" {
		c.recordScale(c.former, "the scheduler's grant", 0)
	}
	c.training.Begin()
	c.fleet.Begin()
}

// take applies an event. It reports whether more than planning may be necessary: see rest.go.
func (c *Controller) take(e Event) (due bool) {
	switch e := e.(type) {
	case Reported:
		return c.training.TakeReport(e.ID, e.Report)
	case Wake:
		return false
	case Disconnected:
		c.training.Silence.Disconnected(e.ID)
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
	case BudgetChanged:
		c.takeBudget(e)
	case Exported:
		c.training.TakeExported(e)
	case ManifestWritten:
		c.training.Saves.TakeManifest(e)
	case Preferred:
		c.training.Layout.Prefer(e.Preference)
		c.lend(e.Preference)
	default:
		return c.fleet.Take(e)
	}
	return true
}

// State returns what the policy sees now. Its slices are valid until the next Step, and must not be changed.
func (c *Controller) State() bidding.State { return c.fleet.View.State() }

// Totals returns the run's figures so far.
func (c *Controller) Totals() Totals {
	f, t := c.fleet.Totals, c.training.Totals
	return Totals{Machines: f.Machines, Evictions: f.Evictions, Switches: f.Switches, Rollbacks: t.Rollbacks, Lost: t.Lost,
		Clocks: c.training.Clocks.Done, Charged: c.fleet.Accounts.Charged}
}
