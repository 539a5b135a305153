package jobmanager

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/sched"
	"github.com/tierml/tierml/sched/grants"
)

// follower reads the journal of an active run, as it grows, and passes on each line once.
type follower struct {
	lines *runs.Reader
}

// read passes on new lines since the last call. A journal that does not exist yet has no lines.
func (f *follower) read(dir string, take func(journal.Entry)) error {
	if f.lines == nil {
		lines, err := runs.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		f.lines = lines
	}
	for {
		entries, done, err := f.lines.More()
		for _, e := range entries {
			take(e)
		}
		if err != nil || done {
			return err
		}
	}
}

func (f *follower) close() {
	if f.lines != nil {
		_ = f.lines.Close() // it was only read
		f.lines = nil
	}
}

// progress is a job's progress, for a scheduler.
type progress struct {
	follower
	at      []int64 // the clocks of its feedback
	is      grants.Progress
	seconds map[int][]float64 // of its last clocks, by workers
	live    map[string]string // pools of transient machines that were launched and have not ended, by instance
	paid    spending
	workers int            // of the last clock
	alike   int            // consecutive clocks with this number
	over    bool           // the run had ended when it was read
	loss    float64        // the last test loss, or the last loss if none is measured; NaN = it diverged, or has none yet
	tested  bool           // a test loss was measured
	market  *clock.Mapping // nil = unknown yet
	own     int            // workers, by the file with which the run was last started
	wants   int            // workers, by the journal; 0 = none, or unknown
	asked   bool           // for a number other than its file's
	rests   bool           // paused, by anyone
}

// settling clocks after a change of the number of workers do not count; of later ones, the last for each number do.
const (
	settling  = 2
	lastOnes  = 8
	leastOnes = 3
)

// take processes a line of the run's journal.
func (p *progress) take(e journal.Entry) {
	p.paid.pass(e.T, p.live)
	switch e.Kind {
	case journal.Price:
		p.paid.take(e)
	case journal.Start:
		p.market = cmp.Or(marketClock(e), p.market)
		if d, err := e.StartDetails(); err == nil {
			p.own = d.Want.Machines
			if !p.asked {
				p.wants = p.own
			}
		}
	case journal.Launch:
		if e.Tier == string(step.Transient) {
			p.live[e.Instance] = e.Pool
		}
	case journal.Evicted, journal.Terminated:
		delete(p.live, e.Instance)
	case journal.Failed:
		if e.Ended != nil {
			delete(p.live, e.Instance)
		}
	case journal.Scale:
		p.is.PausedBy = ""
		d, err := e.ScaleDetails()
		if err != nil {
			return
		}
		p.asked, p.rests = true, d.Paused != ""
		if !d.Scheduled {
			p.is.PausedBy = d.Paused
		}
		switch {
		case d.Paused != "":
			p.wants = 0
		case d.Want != nil:
			p.wants = d.Want.Machines
		default:
			p.wants = p.own
		}
	case journal.Done: // no machine is left, and the next run starts over
		clear(p.live)
		p.is.PausedBy, p.wants, p.asked, p.rests = "", 0, false, false
	case journal.ClockDone:
		p.is.Done = e.Clock
		p.takeLoss(e)
		if n := len(p.is.Rungs); n < len(p.at) && e.Clock >= p.at[n] {
			loss := math.NaN() // it diverged: the loss was NaN
			if figure := cmp.Or(e.TestLoss, e.TrainLoss); figure != nil {
				loss = *figure
			}
			p.is.Rungs = append(p.is.Rungs, loss)
		}
		if e.Transient != p.workers {
			p.workers, p.alike = e.Transient, 0
		}
		if p.alike++; p.alike > settling && e.Transient > 0 && e.Seconds > 0 && !e.Redone {
			last := append(p.seconds[e.Transient], e.Seconds)
			p.seconds[e.Transient] = last[max(len(last)-lastOnes, 0):]
		}
	}
}

// takeLoss processes the losses of a clock. NaN losses are absent in journals.
func (p *progress) takeLoss(e journal.Entry) {
	switch {
	case e.TestLoss != nil:
		p.loss, p.tested = *e.TestLoss, true
	case e.TrainLoss == nil:
		p.loss = math.NaN()
	case !p.tested:
		p.loss = *e.TrainLoss
	}
}

// pace returns the median speed by workers.
func (p *progress) pace() (pace sched.Pace) {
	for workers, seconds := range p.seconds {
		if len(seconds) >= leastOnes {
			sorted := slices.Sorted(slices.Values(seconds))
			pace = append(pace, sched.Measured{Workers: workers, Speed: 1 / sorted[len(sorted)/2]})
		}
	}
	slices.SortFunc(pace, func(a, b sched.Measured) int { return cmp.Compare(a.Workers, b.Workers) })
	return pace
}

// recall keeps the result of a finished trial.
func (s *scheduler) recall(j *job) error {
	if len(j.asked.At) == 0 && j.Sweep == "" {
		if p := s.progress[j.ID]; p != nil {
			p.close()
			delete(s.progress, j.ID)
		}
		return nil
	}
	if p := s.progress[j.ID]; p == nil || !p.over {
		if _, err := s.progressOf(j); err != nil {
			return err
		}
		s.progress[j.ID].close()
		s.progress[j.ID].over = true
	}
	if len(j.asked.At) == 0 {
		return nil
	}
	s.others.Over = append(s.others.Over, grants.Over(j.ID, j.arrived(), j.asked.Feedback, s.progress[j.ID].is.Rungs))
	return nil
}

// progressOf reads on in a job's journal.
func (s *scheduler) progressOf(j *job) (grants.Progress, error) {
	p := s.progress[j.ID]
	if p == nil || p.over { // a finished job is resumed
		p = &progress{at: j.asked.At, loss: math.NaN(), seconds: map[int][]float64{}, live: map[string]string{}, paid: spending{price: map[string]float64{}}}
		s.progress[j.ID] = p
	}
	if err := p.read(j.dir, p.take); err != nil {
		return p.is, fmt.Errorf("%s: %w", j.ID, err)
	}
	p.is.Pace, p.is.Spent = p.pace(), p.paid.spent
	return p.is, nil
}
