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

// The parts of a Past.
type (
	Ledger      = fleet.Ledger
	Log         = training.Log
	PastMachine = fleet.PastMachine
	PastLaunch  = fleet.PastLaunch
)

// Past is the record of a run's earlier controllers: everything that a new one knows about the run before it queries
// the provider and the machines.
type Past struct {
	Ledger
	Log
	Paused  string               // why there are no transient machines, because of a budget
	Target  journal.ScaleDetails // numbers set by people or schedulers
	Started time.Time            // when time limits began to count; zero = now
}

// ReadPast reads the journal of a run.
func ReadPast(entries []journal.Entry) (*Past, error) {
	p := &Past{Log: Log{Generation: 1}}
	machines := fleet.NewReader(&p.Ledger)
	goesOn := false // from one start of a controller to the next, after a disorderly end
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

// Unwritten returns the prices of a pool that a controller writes down when it begins; nil is the past of a new run.
func (p *Past) Unwritten(pool market.Pool, known *market.History) []market.PricePoint {
	if p == nil {
		return (*Ledger)(nil).Unwritten(pool, known)
	}
	return p.Ledger.Unwritten(pool, known)
}

// read restores the requested numbers.
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

// Distrust handles a journal that lost lines: their content is unknown, so that the machines' reports cannot be checked. All machines are
// given up, and training continues from the newest checkpoint in a generation that none has seen.
func (p *Past) Distrust(lost int) {
	p.Generation += ps.Generation(lost)
	for i := range p.Machines {
		p.Machines[i].Left = true
	}
}
