package restart

import (
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
)

// driven leaves training to the driver: a simulation uses a rate.
type driven struct {
	*step.Step
	attempts *Attempts
}

// Driven leaves training to the driver: it carries out a Train and a Save, and answers by Trained and Saved.
func Driven(a *Attempts) Trainer { return &driven{a.Step, a} }

func (d *driven) Begin(team []*Worker, from ps.Clock) {
	do := elasticity.Train{From: from}
	for _, w := range team {
		do.Machines = append(do.Machines, w.ID)
	}
	d.Do(do)
}

func (d *driven) Save(final bool) { d.Do(elasticity.Save{Final: final}) }

func (d *driven) Take(e step.Event) {
	a := d.attempts
	switch e := e.(type) {
	case elasticity.Disconnected:
		if w := a.workers[e.ID]; w != nil && !w.Lost {
			a.Lose(w.Machine)
		}
	case elasticity.Trained:
		redone := e.Clock <= a.reached
		if a.Trained(e.Clock, e.Pace) {
			d.Record(func() journal.Entry {
				return journal.Entry{Kind: journal.ClockDone, Clock: int64(e.Clock), Count: len(a.now.team), Redone: redone}
			})
		}
	case elasticity.Saved:
		if a.now != nil && a.now.saving && e.Err == nil {
			d.Record(func() journal.Entry {
				return journal.Entry{Kind: journal.Export, Clock: int64(e.Clock), Model: e.Model}
			})
		}
		a.Saved(e.Clock, e.Err)
	}
}

// The rest is the driver's task: a team ends with the first of its machines, or when another begins.

func (d *driven) Stop([]*Worker)          {}
func (d *driven) Advance()                {}
func (d *driven) NextDue(func(time.Time)) {}
func (d *driven) Connected(step.ID) bool  { return false }
