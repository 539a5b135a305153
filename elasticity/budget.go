package elasticity

import (
	"cmp"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// BudgetChanged reports that spending is near a limit, above it, or below it again. jobrun/budget watches the limits;
// this package decides the consequences for machines. A limit that ends the run is a StopWanted.
type BudgetChanged struct {
	Do  BudgetStep
	Why string
	USD market.USD // the compared figure
}

func (BudgetChanged) Event() {}

// BudgetStep is the response to a limit.
type BudgetStep int

const (
	// BudgetWarns only writes a journal line.
	BudgetWarns BudgetStep = iota
	// BudgetPauses stops buying transient machines and releases those held: they hand everything over and are
	// terminated, and the reliable machines continue. A run without reliable machines ends cleanly, with a checkpoint.
	BudgetPauses
	// BudgetGoesOn resumes buying transient machines.
	BudgetGoesOn
)

func (c *Controller) takeBudget(e BudgetChanged) {
	to := journal.Warned
	switch {
	case c.closing():
		return
	case e.Do == BudgetPauses && c.cfg.Reliable.Count == 0:
		c.step.Stop = e.Why
		return
	case e.Do == BudgetPauses && c.overBudget != "", e.Do == BudgetGoesOn && c.overBudget == "":
		return
	case e.Do == BudgetPauses:
		to, c.overBudget = journal.Paused, cmp.Or(e.Why, "a budget is exceeded")
	case e.Do == BudgetGoesOn:
		to, c.overBudget = journal.GoesOn, ""
	}
	c.setDemand()
	c.step.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.Budget, To: to, USD: e.USD.String(), Clock: int64(c.training.Clocks.Done), Why: e.Why}
	})
	c.fleet.Replan()
	c.training.Rearrange()
}
