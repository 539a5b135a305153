package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
)

// BudgetUsedUp returns why a run ends at its budget.
func BudgetUsedUp(budget market.USD) string { return "the budget of " + budget.Cents() + " is used up" }

// spending keeps a run within its budget.
type spending struct {
	fleet *Fleet
	next  time.Time // when the budget is next compared with what is due
	atCut bool      // the run should return to its committed cut
}

// Keep ends the run before it exceeds its budget, in steps: gracefully, while there is money for the current clock; then at the committed
// cut; then at once. Committed costs count as spent: increments that have begun, and those that will begin before the machines are gone.
// Nothing is bought that the remaining budget cannot pay for (bidding.Ask, bidding.Pays).
func (s *spending) Keep() {
	f := s.fleet
	j := &f.cfg.Job
	if f.Stop != "" && !f.Ending {
		s.turnAway()
	}
	if f.Ending || j.Budget <= 0 || j.Overspends || f.Now.Before(s.next) {
		return
	}
	for s.over(f.Now) {
		if s.end(); f.Ending {
			return
		}
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

// priced handles a new price. It reports whether running machines pay it, since the next hour may then exceed the budget.
func (s *spending) priced(e PriceChanged) bool {
	j := &s.fleet.cfg.Job
	dearer := j.Budget > 0 && !j.Overspends && slices.ContainsFunc(s.fleet.Roster.List, func(m *Machine) bool { return m.Pool == e.Pool && !m.Ended })
	if dearer {
		s.next = time.Time{}
	}
	return dearer
}

// end takes the next step.
func (s *spending) end() {
	f := s.fleet
	switch {
	case f.Stop == "":
		f.Stop = BudgetUsedUp(f.cfg.Job.Budget)
		s.turnAway()
	case f.tiers != nil && !s.atCut:
		s.atCut = true
		f.tiers.EndAtCut(f.Stop)
	default:
		f.Outcome = journal.Interrupted
		f.Step.End(f.Stop)
	}
}

// over reports whether a run that takes the next step towards its end at a given time would exceed its budget, at present prices.
func (s *spending) over(at time.Time) bool {
	f := s.fleet
	until := f.cfg.StopTakes
	switch {
	case f.Stop == "":
		until = f.View.ending(f.work.Progress())
	case f.tiers == nil || s.atCut:
		until = f.cfg.DrainMargin / 4
	}
	return f.Accounts.due(at.Add(until)) > f.cfg.Job.Budget
}

// launch buys reliable machines at a price, or ends the run if its budget cannot pay for them.
func (s *spending) launch(a bidding.Acquire, price market.USD) {
	f := s.fleet
	if !bidding.Pays(f.View.State(), market.USD(a.Count)*price) {
		f.Stop = fmt.Sprintf("the budget of %s does not pay for %d x %s, the reliable tier", f.cfg.Job.Budget.Cents(), a.Count, a.Pool.Type)
		return
	}
	f.buys.launch(step.Reliable, a)
}

// turnAway ends the transient machines of an ending run that have not joined it: nothing waits for them, and the current clock may take
// long without them.
func (s *spending) turnAway() {
	for _, m := range s.fleet.Roster.List {
		if m.Tier == step.Transient && m.Joined == 0 && !m.Lost && !m.Ended {
			s.fleet.Terminate(&m.Machine, s.fleet.Stop)
		}
	}
}
