package restart

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
)

// attempt is one fleet's training, from the checkpoint that it began with until it stops.
type attempt struct {
	team  []*machine
	began bool // it has read the checkpoint
	// clock was complete at `at`, and another takes pace.
	clock ps.Clock
	at    time.Time
	pace  time.Duration

	saveAt time.Time // the next checkpoint; zero = none
	saving bool
	tries  int // of the last checkpoint, in vain
}

// maxSaves is how often the last checkpoint is tried before the run fails.
const maxSaves = 5

// plan asks the policy what to hold and does as it says. One purchase after the other: what becomes of the last one
// is part of what the next is decided from.
func (c *Controller) plan() {
	if !c.wantPlan && c.now.Before(c.nextPlan) {
		return
	}
	if c.ending || c.stopWhy != "" || len(c.launches) > 0 || c.progress() >= c.cfg.Clocks {
		return
	}
	c.wantPlan, c.nextPlan = false, c.now.Add(c.cfg.PlanEvery)
	plan := bidding.Ask(c.cfg.Policy, c.State())
	if plan.AskAgain.After(c.now) && plan.AskAgain.Before(c.nextPlan) {
		c.nextPlan = plan.AskAgain
	}
	if !c.cfg.Continuous {
		c.saveEvery = cmp.Or(c.cfg.SaveEvery, plan.SaveEvery)
	}
	if len(plan.Acquire) == 0 {
		c.giveUp(plan.Release)
	}
	c.considered = plan.Considered
	for i, a := range plan.Acquire {
		if i == 0 {
			c.buy(a, plan.Release)
		} else {
			c.buy(a, nil)
		}
	}
}

// train begins when a whole fleet is ready.
func (c *Controller) train() {
	if c.attempt != nil || c.ending || c.stopWhy != "" || len(c.launches) > 0 || c.saved >= c.cfg.Clocks {
		return
	}
	if slices.ContainsFunc(c.roster, func(m *machine) bool { return !m.ready && m.staying() }) {
		return // the others wait for it
	}
	var team []*machine
	machines, vcpu := 0, 0
	for _, m := range c.roster {
		if !m.staying() {
			continue
		}
		team = append(team, m)
		machines++
		vcpu += m.vcpu
	}
	if len(team) == 0 || machines < c.cfg.Want.Machines || vcpu < c.cfg.Want.VCPU {
		return
	}
	c.attempts++
	c.attempt = &attempt{team: team, clock: c.saved, at: c.now}
	do := elasticity.Train{From: c.saved}
	for _, m := range team {
		m.in = c.attempt
		do.Machines = append(do.Machines, m.id)
		c.record(func() journal.Entry {
			return journal.Entry{Kind: journal.Join, Instance: string(m.id), Pool: m.pool.String(), Tier: m.tier(), Clock: int64(c.saved)}
		})
	}
	c.out = append(c.out, do)
}

// takeTrained is told how far the fleet has come, first when it begins.
func (c *Controller) takeTrained(e elasticity.Trained) {
	a := c.attempt
	if a == nil || e.Clock < a.clock {
		return
	}
	if !a.began {
		a.began, c.seenWell = true, false
		c.scheduleSave(a)
	} else if e.Clock > a.clock {
		c.record(func() journal.Entry {
			return journal.Entry{Kind: journal.ClockDone, Clock: int64(e.Clock), Count: len(a.team), Redone: e.Clock <= c.reached}
		})
	}
	a.clock, a.at, a.pace = e.Clock, c.now, e.Pace
	c.reached = max(c.reached, e.Clock)
}

func (c *Controller) scheduleSave(a *attempt) {
	a.saveAt = time.Time{}
	if c.saveEvery > 0 {
		a.saveAt = c.now.Add(c.saveEvery)
	}
}

// progress is the highest complete clock, as far as is known: between two reports by the pace.
func (c *Controller) progress() ps.Clock {
	a := c.attempt
	switch {
	case a == nil:
		return c.saved
	case !a.began || a.pace <= 0 || a.saving:
		return a.clock
	}
	return min(a.clock+ps.Clock(c.now.Sub(a.at)/a.pace), c.cfg.Clocks)
}

// job is what the policy is told of the work now.
func (c *Controller) job() bidding.Job {
	j := c.cfg.Job
	j.Started, j.Terms = c.started, c.cfg.Rules.Terms()
	j.Done = j.Work * float64(c.progress()) / float64(c.cfg.Clocks)
	j.Saved, j.SaveEvery = j.Work*float64(c.saved)/float64(c.cfg.Clocks), c.cfg.SaveEvery
	if c.cfg.Continuous {
		j.Saved = j.Done
	}
	if j.Budget > 0 {
		j.Spent = c.spent()
	}
	return j
}

// save takes a checkpoint when one is due: by its interval, at the end of the work or of the run, and before a fleet is
// given up.
func (c *Controller) save() {
	a := c.attempt
	if a == nil || !a.began || a.saving {
		return
	}
	due := !a.saveAt.IsZero() && !c.now.Before(a.saveAt)
	if due || a.clock >= c.cfg.Clocks || c.stopWhy != "" || a.parting() && !c.cfg.Continuous {
		a.clock, a.at = c.progress(), c.now
		a.saving = true
		c.out = append(c.out, elasticity.Save{Final: a.clock >= c.cfg.Clocks})
	}
}

// parting reports whether machines of the team are given up.
func (a *attempt) parting() bool {
	return slices.ContainsFunc(a.team, func(m *machine) bool { return m.leaving })
}

func (c *Controller) takeSaved(e elasticity.Saved) {
	a := c.attempt
	if e.Err == nil {
		if e.Clock > c.saved {
			c.crashes.Progressed()
		}
		c.saved, c.reached = max(c.saved, e.Clock), max(c.reached, e.Clock)
	}
	if a == nil || !a.saving {
		if c.saved >= c.cfg.Clocks && !c.ending { // continuous saving: the fleet was lost with the last of the work
			c.finish()
		}
		return
	}
	a.saving, a.at = false, c.now
	if e.Err != nil {
		c.failSave(a, e.Err)
		return
	}
	c.record(func() journal.Entry {
		return journal.Entry{Kind: journal.Export, Clock: int64(e.Clock), Model: e.Model}
	})
	a.clock, a.tries = max(a.clock, e.Clock), 0
	c.scheduleSave(a)
	switch {
	case c.saved >= c.cfg.Clocks:
		c.finish()
	case c.stopWhy != "":
		c.outcome = "interrupted"
		c.endAll("the run is over: " + c.stopWhy)
	case a.parting():
		c.stop("the policy moves the job")
	}
}

func (c *Controller) finish() {
	c.outcome = "finished"
	c.endAll("the run is over: all clocks are done")
}

// failSave tries again a little later; at the end of the work the run fails after some tries.
func (c *Controller) failSave(a *attempt, err error) {
	a.tries++
	a.saveAt = c.now.Add(time.Duration(a.tries) * time.Minute)
	if a.tries < maxSaves {
		return
	}
	c.fail(fmt.Sprintf("saving a checkpoint failed %d times: %s", a.tries, err))
}

// fail ends the run at once.
func (c *Controller) fail(why string) {
	if c.ending {
		return
	}
	c.outcome, c.stopWhy = "failed", why
	c.endAll(why)
}

// stop ends an attempt: what was done since the last checkpoint is lost.
func (c *Controller) stop(why string) {
	c.reached = max(c.reached, c.progress())
	c.totals.Rollbacks++
	if c.cfg.Continuous && c.attempt.parting() {
		c.saved = max(c.saved, c.progress())
	}
	c.totals.Lost += c.reached - c.saved
	c.record(func() journal.Entry {
		return journal.Entry{
			Kind: journal.Rollback, Clock: int64(c.saved), LostClocks: int64(c.reached - c.saved), Generation: c.attempts, Why: why,
		}
	})
	c.attempt, c.wantPlan, c.seenWell = nil, true, false
}

// retire terminates machines that were given up, once what they have done is saved.
func (c *Controller) retire() {
	if a := c.attempt; a != nil && a.parting() {
		if a.began && !c.cfg.Continuous {
			return // when it is saved
		}
		c.stop("the policy moves the job")
	}
	for _, m := range c.roster {
		if m.leaving {
			c.terminate(m, m.why)
		}
	}
}
