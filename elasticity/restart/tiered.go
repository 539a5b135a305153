package restart

import (
	"errors"
	"fmt"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/elasticity/training"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// tiered trains teams by elasticity/training: a team is the reliable tier of a training of its own, which ends with the first machine lost.
// Killed agents restart without state.
type tiered struct {
	*step.Step
	attempts *Attempts
	cfg      *training.Config        // of the next team's training, except what is set when it begins
	hellos   map[step.ID]tiers.Hello // of agents that have no state yet
	team     *session                // nil while none trains
	teams    uint64                  // so far

	firstID uint64
	life    string // of checkpoints
	limit   time.Duration
}

// session is one team's training.
type session struct {
	*training.Training
	step     *step.Step // its own: it judges silence by its own clock, and its end is not that of the run
	cfg      *training.Config
	machines map[step.ID]*step.Machine // as reliable ones
}

// cutsForCheckpoints disables cuts between checkpoints, since nothing returns to them.
const cutsForCheckpoints = 365 * 24 * time.Hour

// Tiered makes teams train by elasticity/training, as configured: the job, where checkpoints go, and the one to begin with. The rest of the
// Config is for runs with tiers of machines.
func Tiered(train elasticity.Config) func(*Attempts) Trainer {
	return func(a *Attempts) Trainer { return newTiered(train.ForTraining(), a) }
}

func newTiered(cfg *training.Config, a *Attempts) *tiered {
	t := &tiered{Step: a.Step, attempts: a, cfg: cfg, hellos: map[step.ID]tiers.Hello{},
		firstID: cfg.FirstID, life: cfg.Checkpoints.Life, limit: cfg.Job.Stop.Time}
	cfg.Past, cfg.Job.Before, cfg.CutEvery, cfg.Notice = nil, nil, cutsForCheckpoints, 0
	cfg.Checkpoints.Every, cfg.Checkpoints.Newest, cfg.Checkpoints.NewestAt = 0, cfg.Job.ResumeFrom, cfg.Job.ResumeAt
	return t
}

// commands is above all command numbers of earlier teams.
func (t *tiered) commands() uint64 { return t.firstID + (t.teams+1)<<22 }

func (t *tiered) Begin(team []*Worker, _ ps.Clock) {
	c := *t.cfg
	c.FirstID = t.commands()
	t.teams++
	c.FirstGeneration = ps.Generation(t.attempts.began)
	c.Checkpoints.Life = fmt.Sprintf("%s.%d", t.life, t.teams)
	if t.limit > 0 {
		c.Job.Stop.Time = max(t.limit-t.Now.Sub(t.Started), 1)
	}
	s := &session{cfg: &c, machines: map[step.ID]*step.Machine{},
		step: &step.Step{Started: t.Now, Awake: step.NewAwake(c.DeadAfter), Speed: t.Speed, Silent: t.Silent}}
	s.Training = training.New(&c, s.step, members{t})
	s.step.OnEnd = func(string) { s.CutShort() }
	t.team = s
	t.within(func() {
		s.Begin()
		for i, w := range team {
			m := &step.Machine{ID: w.ID, Tier: step.Reliable, VCPU: w.VCPU, Number: int(t.attempts.began<<20) + i + 1, Entered: t.Now}
			s.machines[w.ID] = m
			s.Enter(m, w.Kind)
		}
		for _, w := range team {
			s.TakeReport(w.ID, t.hellos[w.ID])
		}
		s.advance(t)
	})
}

// Save takes a checkpoint. The team takes the last one by itself, at its end.
func (t *tiered) Save(final bool) {
	s := t.team
	if s == nil || final {
		return
	}
	t.within(func() {
		if t.attempts.Stop != "" {
			s.step.Stop = t.attempts.Stop
		} else {
			s.Cuts.SaveNow()
		}
		s.advance(t)
	})
}

// Stop kills the team. Remaining machines restart.
func (t *tiered) Stop(team []*Worker) {
	t.team = nil
	for _, w := range team {
		if w.Lost || w.Ended || w.Terminating || w.Leaving {
			continue
		}
		delete(t.hellos, w.ID)
		t.attempts.Again(w)
		t.attempts.Fleet.Left(w.Machine)
		t.Do(elasticity.Send{ID: w.ID, Command: tiers.Command{ID: t.commands() - 1,
			Do: tiers.Stop{Why: "the fleet is no longer complete", Again: true}}})
	}
}

func (t *tiered) Take(e step.Event) {
	switch e := e.(type) {
	case elasticity.Reported:
		t.takeReport(e)
	case elasticity.Disconnected: // a broken stream is not yet the end of a machine: the training judges
		t.hear(func(s *session) bool { s.Silence.Disconnected(e.ID); return false })
	case elasticity.Exported:
		t.hear(func(s *session) bool { s.TakeExported(e); return true })
	case elasticity.ManifestWritten:
		t.hear(func(s *session) bool { s.Saves.TakeManifest(e); return true })
	}
}

func (t *tiered) takeReport(e elasticity.Reported) {
	w := t.attempts.workers[e.ID]
	switch r := e.Report.(type) {
	case tiers.Hello:
		if r.Incarnation == 0 {
			t.hellos[e.ID] = r
		}
	case tiers.Crashed:
		if w != nil {
			t.attempts.Fleet.Crashed(w.Machine, "its agent ended by itself: "+r.Error, r.Log)
		}
		return
	case tiers.Warned:
		t.attempts.Fleet.Warned(e.ID, r.Deadline, r.Rebalance)
		return
	}
	if t.team != nil && t.team.machines[e.ID] != nil {
		t.hear(func(s *session) bool { return s.TakeReport(e.ID, e.Report) })
	}
}

// hear passes something to the team's training, if there is one.
func (t *tiered) hear(take func(*session) (due bool)) {
	s := t.team
	if s == nil {
		return
	}
	t.within(func() {
		if take(s) || s.due(t.Now) {
			s.advance(t)
		}
	})
}

// Advance handles the passage of time.
func (t *tiered) Advance() {
	s := t.team
	if s == nil {
		return
	}
	if s.step.Awake.Step(t.Now); s.due(t.Now) {
		t.within(func() { s.advance(t) })
	}
}

func (s *session) due(now time.Time) bool { return s.step.Pending || !now.Before(s.step.RestUntil) }

// within runs a function on the team's training, and carries out the resulting actions. Actions of a team that is stopped meanwhile are
// void.
func (t *tiered) within(happens func()) {
	s := t.team
	s.step.Begin(t.Now)
	happens()
	if t.team == s && s.step.Outcome == "failed" {
		t.Fail(s.step.FailWhy)
	}
	for _, a := range s.step.Actions() {
		if t.team != s {
			return
		}
		if r, line := a.(step.Record); line {
			t.takeLine(r.Entry)
		} else {
			t.Do(a)
		}
	}
}

// advance does whatever the state now requires, until the team is stopped.
func (s *session) advance(t *tiered) {
	for again := true; again && t.team == s; {
		before := s.Snapshot()
		s.Silence.GiveUp()
		if limit := s.cfg.Job.Stop; s.step.Enough == "" && limit.Time > 0 {
			s.step.Enough = limit.Elapsed(s.step.Now.Sub(s.step.Started))
		}
		s.Join()
		s.Training.Advance()
		var restless bool
		again, restless = s.Look()
		s.step.Pending, s.step.RestUntil = s.Snapshot() != before || restless, s.nextDue()
	}
}

func (s *session) nextDue() time.Time {
	due := s.step.Now.Add(step.Never)
	by := func(t time.Time) {
		if t.After(s.step.Now) && t.Before(due) {
			due = t
		}
	}
	s.Training.NextDue(by)
	if limit := s.cfg.Job.Stop.Time; limit > 0 {
		by(s.step.Started.Add(limit))
	}
	return due
}

// NextDue also advances the training clock of machines that are awake.
func (t *tiered) NextDue(by func(time.Time)) {
	if s := t.team; s != nil {
		by(s.step.RestUntil)
		by(s.step.Awake.NextBeat())
	}
}

// Connected reports whether a machine of the team has been heard recently.
func (t *tiered) Connected(id step.ID) bool {
	if t.team == nil {
		return false
	}
	m := t.team.machines[id]
	return m != nil && t.team.Connected(m)
}

// takeLine forwards the training's journal lines that matter to the run, adapted to the attempt.
func (t *tiered) takeLine(e journal.Entry) {
	a := t.attempts
	write := func() { t.Record(func() journal.Entry { return e }) }
	switch e.Kind {
	case journal.Stage: // the tier is complete
		a.Trained(t.cfg.Job.ResumeAt, 0)
	case journal.Cut, journal.Silence:
		write()
	case journal.ClockDone:
		e.Redone = ps.Clock(e.Clock) <= a.reached
		e.Transient, e.Reliable = 0, 0
		for _, w := range a.now.team { // by their terms of sale
			if w.Tier == step.Reliable {
				e.Reliable++
			} else {
				e.Transient++
			}
		}
		write()
		a.Trained(ps.Clock(e.Clock), 0)
	case journal.Checkpoint:
		write()
		t.cfg.Job.ResumeFrom, t.cfg.Job.ResumeAt = e.Model, ps.Clock(e.Clock)
		t.cfg.Checkpoints.Newest, t.cfg.Checkpoints.NewestAt = e.Model, ps.Clock(e.Clock)
		a.Saved(ps.Clock(e.Clock), nil)
	case journal.SaveFailed:
		write()
		a.Saved(0, errors.New(e.Why))
	case journal.Export:
		write()
		if e.Outcome == "" {
			return // it failed, and is retried
		}
		if e.Outcome == "finished" { // perhaps before all clocks were done
			a.clocks, a.Enough = ps.Clock(e.Clock), t.team.step.Enough
		}
		a.Saved(ps.Clock(e.Clock), nil)
	}
}

// members is the fleet interface of a team's training: giving up a machine is passed to the fleet, and ends the attempt.
type members struct{ t *tiered }

func (m members) GiveUp(of *step.Machine, why string) {
	m.t.attempts.Fleet.GiveUp(m.t.attempts.workers[of.ID].Machine, why)
}

func (m members) Crashed(of *step.Machine, why, log string) {
	m.t.attempts.Fleet.Crashed(m.t.attempts.workers[of.ID].Machine, why, log)
}

func (m members) Terminate(of *step.Machine, why string) { m.GiveUp(of, why) }

func (m members) Warned(id step.ID, deadline time.Time, rebalance bool) (due bool) {
	return m.t.attempts.Fleet.Warned(id, deadline, rebalance)
}

// All of a team's machines come from the fleet and join at once, and it is complete while it trains.

func (members) Ready(*step.Machine)                        {}
func (members) Reorder()                                   {}
func (members) Joined(*step.Machine, func() journal.Entry) {}
func (members) Lost(*step.Machine, bool)                   {}
func (members) Called(step.ID)                             {}
func (members) Surveyed() bool                             { return true }
func (members) TakenOver()                                 {}
func (members) StartedOver()                               {}
func (members) Progressed()                                {}
func (members) Replan()                                    {}
func (members) PlanDue() bool                              { return false }
