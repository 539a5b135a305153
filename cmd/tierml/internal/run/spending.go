package run

import (
	"cmp"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/jobrun/budget"
)

// spending passes a run's limits on to the run.
type spending struct {
	guard *budget.Guard
	said  chan elasticity.BudgetChanged
	stop  chan<- string
}

func watchSpending(job *config.Job, stop chan<- string) *spending {
	limits := budget.Limits{
		Total: job.Budget, PerHour: job.Limits.PerHour, WarnAt: cmp.Or(job.Limits.WarnAt, 0.8),
		OverHour: budget.Do(cmp.Or(job.Limits.OverHour, config.LimitShrink)),
	}
	return &spending{budget.New(limits), make(chan elasticity.BudgetChanged, 64), stop}
}

// feed is called with every entry, in order, by the journal's writer: it must not block.
func (s *spending) feed(e journal.Entry) {
	for _, d := range s.guard.Feed(e) {
		said := elasticity.BudgetChanged{Why: d.Why, USD: d.USD}
		switch d.Do {
		case budget.Stop:
			wish(s.stop, d.Why)
			continue
		case budget.Warn:
			said.Do = elasticity.BudgetWarns
		case budget.Shrink:
			said.Do = elasticity.BudgetPauses
		case budget.GoOn:
			said.Do = elasticity.BudgetGoesOn
		}
		select {
		case s.said <- said:
		default: // the run no longer listens: it is ending
		}
	}
}
