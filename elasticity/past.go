package elasticity

import (
	"fmt"
	"time"

	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/training"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
)

// What a Past is made of.
type (
	Ledger      = fleet.Ledger
	Log         = training.Log
	PastMachine = fleet.PastMachine
	PastLaunch  = fleet.PastLaunch
)

// Past is what earlier controllers of a run have written down: all that a new one knows of the run before it has asked
// the provider and the machines.
type Past struct {
	Ledger
	Log
	Paused  string               // why there are no transient machines, by a budget
	Target  journal.ScaleDetails // numbers that people or schedulers have set
	Started time.Time            // when limits of time began to count; zero = now
}

// ReadPast reads the journal of a run.
func ReadPast(entries []journal.Entry) (*Past, error) {
	p := &Past{Log: Log{Generation: 1}}
	machines := fleet.NewReader(&p.Ledger)
	goesOn := false // from one start of a controller to the next, which was not in order
	for i, e := range entries {
		switch e.Kind {
		case journal.Start:
			if !goesOn {
				p.Started, goesOn = e.T, true
			}
		case journal.Done:
			goesOn = false
		}
		err := p.read(e)
		for _, read := range []func(journal.Entry) error{machines.Read, p.Log.Read} {
			if err == nil {
				err = read(e)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("journal entry %d: %w", i+1, err)
		}
	}
	machines.Close()
	p.Joins = machines.Joins
	return p, nil
}

// Unwritten returns the prices of a pool that a controller writes down when it begins; nil is the past of a run that begins.
func (p *Past) Unwritten(pool market.Pool, known *market.History) []market.PricePoint {
	if p == nil {
		return (*Ledger)(nil).Unwritten(pool, known)
	}
	return p.Ledger.Unwritten(pool, known)
}

// read loads the numbers that were set.
func (p *Past) read(e journal.Entry) (err error) {
	switch {
	case e.Kind == journal.Budget && e.To == journal.Paused:
		p.Paused = e.Why
	case e.Kind == journal.Budget && e.To == journal.GoesOn:
		p.Paused = ""
	case e.Kind == journal.Scale && len(e.Details) > 0:
		p.Target, err = e.ScaleDetails()
	}
	return err
}

// Distrust is for a journal that lost lines: what they said is unknown, so that the machines' word cannot be
// checked against it. All are given up, and training continues from the newest checkpoint in a generation that none has seen.
func (p *Past) Distrust(lost int) {
	p.Generation += ps.Generation(lost)
	for i := range p.Machines {
		p.Machines[i].Left = true
	}
}
