package fleet

import (
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
)

// BudgetUsedUp returns why a run ends at its budget.
func BudgetUsedUp(budget market.USD) string { return "the budget of " + budget.Cents() + " is used up" }

// KeepBudget ends the run in order before it costs more than its budget. What cannot be given back counts as spent: increments that have
// begun, and those that will have until the machines are gone. bidding.Ask buys nothing that the rest does not pay for.
func (f *Fleet) KeepBudget() {
	if f.Stop != "" && !f.Ending {
		f.turnAway()
		return
	}
	if j := &f.cfg.Job; j.Budget <= 0 || j.Overspends || f.Ending || f.Now.Before(f.budgetLook) {
		return
	}
	if f.overBudget(f.Now) {
		f.Stop = BudgetUsedUp(f.cfg.Job.Budget)
		f.turnAway()
		return
	}
	lasts := f.cfg.PlanEvery
	if f.overBudget(f.Now.Add(lasts)) {
		for least := time.Duration(0); lasts-least > time.Second; {
			if middle := (least + lasts) / 2; f.overBudget(f.Now.Add(middle)) {
				lasts = middle
			} else {
				least = middle
			}
		}
	}
	f.budgetLook = f.Now.Add(lasts)
}

// turnAway ends the transient machines of a run that is to end that have not joined it: nothing waits for them, and the clock under way may take
// long without.
func (f *Fleet) turnAway() {
	for _, m := range f.Roster.List {
		if m.Tier == step.Transient && m.Joined == 0 && !m.Lost && !m.Ended {
			f.Terminate(&m.Machine, f.Stop)
		}
	}
}

// overBudget reports whether a run that begins to end at a time costs more than its budget, at the present prices.
func (f *Fleet) overBudget(at time.Time) bool {
	return f.Accounts.due(at.Add(f.cfg.StopTakes+f.cfg.Job.SaveTime+f.work.Progress().Clock)) > f.cfg.Job.Budget
}
