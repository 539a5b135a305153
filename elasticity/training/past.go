package training

import (
	"cmp"
	"strconv"
	"time"

	"github.com/tierml/tierml/elasticity/tuning"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Log is what the journal of earlier controllers says about training.
type Log struct {
	Joins      int
	Generation ps.Generation
	Committed  ps.Clock // newest committed cut
	Done       ps.Clock
	Furthest   ps.Clock // highest clock ever done
	Stage      tiers.Stage
	Load       journal.StageDetails // load's state about stages
	Figures    []PastFigure         // inputs of stopping rules, by clock
	Tuned      []tuning.Past
	Profile    tiers.Profile
	Finished   bool // the model is saved: there is nothing more to train
}

// PastFigure is a clock's measurement.
type PastFigure struct {
	Clock  ps.Clock
	Figure float64
}

// Read processes a journal entry.
func (p *Log) Read(e journal.Entry) (err error) {
	switch e.Kind {
	case journal.Stage:
		n, err := strconv.Atoi(e.To)
		p.Stage, p.Load = tiers.Stage(n), journal.StageDetails{}
		if err == nil && len(e.Details) > 0 {
			p.Load, err = e.StageDetails()
		}
		return err
	case journal.Tune:
		d, err := e.TuneDetails()
		p.Tuned = append(p.Tuned, tuning.Past{Clock: e.Clock, Details: d})
		return err
	case journal.Profile:
		p.Profile, err = profileOf(e)
		return err
	case journal.Export:
		p.Finished = e.Outcome == "finished"
	case journal.Cut:
		p.Committed = ps.Clock(e.Clock)
	case journal.Rollback:
		p.Generation = max(p.Generation, ps.Generation(e.Generation))
		p.Done, p.Committed = ps.Clock(e.Clock), ps.Clock(e.Clock)
	case journal.ClockDone:
		p.Done = ps.Clock(e.Clock)
		if figure := cmp.Or(e.TestLoss, e.TrainLoss); figure != nil && p.Done > p.Furthest {
			p.Figures = append(p.Figures, PastFigure{p.Done, *figure})
		}
		p.Furthest = max(p.Furthest, p.Done)
	}
	return nil
}

// profileOf returns the profile of a line of the journal.
func profileOf(e journal.Entry) (of tiers.Profile, err error) {
	d, err := e.ProfileDetails()
	of.Clock, of.In, of.Out = time.Duration(e.Seconds*float64(time.Second)), d.In, d.Out
	for _, n := range d.Serving {
		of.Serving = append(of.Serving, time.Duration(n))
	}
	return of, err
}
