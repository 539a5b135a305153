package fleet

import (
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/market"
)

// BudgetUsedUp returns why a run ends at its budget.
func BudgetUsedUp(budget market.USD) string { return "the budget of " + budget.Cents() + " is used up" }

// spending keeps a run to its budget.
type spending struct {
	fleet *Fleet
	next  time.Time // when the budget is next compared with what is due
}

// Keep ends the run in order before it costs more than its budget. What cannot be given back counts as spent: increments that have
// begun, and those that will have until the machines are gone. bidding.Ask buys nothing that the rest does not pay for.
func (s *spending) Keep() {
	f := s.fleet
	j := &f.cfg.Job
	switch {
	case f.Ending:
		return
	case f.Stop != "":
		s.turnAway()
		return
	case j.Budget <= 0 || j.Overspends || f.Now.Before(s.next):
		return
	case s.over(f.Now):
		f.Stop = BudgetUsedUp(j.Budget)
		s.turnAway()
		return
	}
	lasts := f.cfg.PlanEvery
	if s.over(f.Now.Add(lasts)) {
		for least := time.Duration(0); lasts-least > time.Second; {
			if middle := (least + lasts) / 2; s.over(f.Now.Add(middle)) {
				lasts = middle
			} else {
				least = middle
			}
		}
	}
	s.next = f.Now.Add(lasts)
}

// turnAway ends the transient machines of a run that is to end that have not joined it: nothing waits for them, and the clock under way may take
// long without.
func (s *spending) turnAway() {
	for _, m := range s.fleet.Roster.List {
		if m.Tier == step.Transient && m.Joined == 0 && !m.Lost && !m.Ended {
			s.fleet.Terminate(&m.Machine, s.fleet.Stop)
		}
	}
}

// over reports whether a run that begins to end at a time costs more than its budget, at the present prices.
func (s *spending) over(at time.Time) bool {
	f := s.fleet
	return f.Accounts.due(at.Add(f.cfg.StopTakes+f.cfg.Job.SaveTime+f.work.Progress().Clock)) > f.cfg.Job.Budget
}
