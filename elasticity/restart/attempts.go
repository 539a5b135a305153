package restart

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/fleet"
	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// Trainer makes a team train: by elasticity/training (Tiered), through the driver (Driven), or by anything else that can be saved and
// restarted. It calls Attempts when the team has made progress (Trained), and when a checkpoint is saved or failed (Saved). It reports
// failing machines to Attempts.Fleet.
type Trainer interface {
	// Begin makes a team train from the checkpoint at a clock. All its agents have called, and have no state yet.
	Begin(team []*Worker, from ps.Clock)
	// Save takes a checkpoint of the training team. Final: of all the work.
	Save(final bool)
	// Stop ends a team's work. Members whose process restarts are expected to call again (Attempts.Again).
	Stop(team []*Worker)
	// Take processes an event.
	Take(e step.Event)
	// Advance does what the team's state now requires; NextDue calls by with each time at which something is due even without events.
	Advance()
	NextDue(by func(time.Time))
	// Connected reports whether a machine has been heard recently.
	Connected(id step.ID) bool
}

// Worker is a machine as attempts see it.
type Worker struct {
	*step.Machine
	Kind   step.Kind // declared properties of its type
	since  time.Time // when its agent should call, by Step.Awake
	called bool
	met    bool // it has called before
}

// Attempts trains by one team after another.
//
// Invariant: at most one team trains, and saved never decreases. Work beyond saved when a team stops is lost, and counted as such.
//
//  1. train: when every machine that stays has called and they are as many as wanted, they all form a team that begins at saved.
//  2. Trained reports how far it has come; between reports its pace says so (done).
//  3. save takes a checkpoint by its interval, at the end, and before machines of the team are given up.
//  4. stop: the first machine that is gone ends the attempt. Those that stay start over, with empty processes, and 1 follows.
//
// A notice has no effect: it is not used to save (docs/policies.md). The next controller does not adopt a team: it records what is lost
// beyond the newest checkpoint, ends the machines (forgotten), and begins again.
type Attempts struct {
	*step.Step
	cfg     *Config
	Fleet   *fleet.Fleet
	trainer Trainer

	workers map[step.ID]*Worker
	roster  []*Worker // machines that are not archived, in order of purchase
	joins   int

	now        *attempt // nil while no team trains
	began      uint64   // attempts so far, by all controllers
	clocks     ps.Clock // of the whole work
	saved      ps.Clock // the newest checkpoint
	home       string   // the region where the last team trained and saved; empty = none yet
	reached    ps.Clock // the highest clock known to have been reached by any attempt
	takingOver bool     // from a previous controller: the results of its launches are not known yet

	rollbacks int
	lost      ps.Clock // clocks that roll-backs undid
}

// attempt is one team's training, from its initial checkpoint until it stops.
type attempt struct {
	team  []*Worker
	began bool // it has read the checkpoint
	// clock was complete at `at`, and the next takes pace.
	clock ps.Clock
	at    time.Time
	pace  time.Duration
	took  time.Duration // the length of the last clock

	saveAt time.Time // the next checkpoint; zero = none
	saving bool
	tries  int // failures of the last checkpoint
}

// maxSaves bounds the tries of the last checkpoint before the run fails.
const maxSaves = 5

func newAttempts(cfg *Config, s *step.Step, f *fleet.Fleet) *Attempts {
	a := &Attempts{Step: s, cfg: cfg, Fleet: f, workers: map[step.ID]*Worker{}, clocks: cfg.Clocks, saved: cfg.ResumeAt, reached: max(cfg.ResumeAt, cfg.Reached)}
	if p := cfg.Past; p != nil {
		a.began, a.reached, a.takingOver = uint64(p.Generation), max(p.Furthest, a.saved), true
	}
	return a
}

// begin records the loss of the previous controller's work.
func (a *Attempts) begin() {
	if a.cfg.Past == nil {
		return
	}
	if lost := a.cfg.Past.Done - a.saved; lost > 0 {
		a.rollback(lost, "the controller was restarted")
	}
}

// Implementation of fleet.Work.

// Need returns what the work currently needs of its machines.
func (a *Attempts) Need() step.Need {
	return step.Need{Standing: !a.takingOver, Begun: true, TakingOver: a.takingOver, Done: a.done() >= a.clocks}
}

// Progress returns how far the work has got.
func (a *Attempts) Progress() step.Progress {
	p := step.Progress{Done: int64(a.done()), Saved: int64(a.saved), Whole: int64(a.cfg.Clocks)}
	if a.cfg.Continuous {
		p.Saved = p.Done
	}
	if a.now != nil {
		p.Clock = a.now.took
	}
	if p.Saved > 0 {
		p.Home = a.home
	}
	return p
}

// Enter adds a bought machine.
func (a *Attempts) Enter(m *step.Machine, kind step.Kind) {
	w := &Worker{Machine: m, Kind: kind, since: a.Awake.Now()}
	a.workers[m.ID] = w
	a.roster = append(a.roster, w)
}

// Entered handles an agent that called before its launch was answered.
func (a *Attempts) Entered(m *step.Machine) { a.takeCall(a.workers[m.ID]) }

// Warned changes nothing: the team trains until the machine goes.
func (a *Attempts) Warned(*step.Machine) (due bool) { return true }

// Lose removes a machine from the work; its team stops training.
func (a *Attempts) Lose(m *step.Machine) {
	w := a.workers[m.ID]
	w.Lost = true
	if a.now != nil && slices.Contains(a.now.team, w) {
		a.stop("machine " + string(m.ID) + " is gone")
	}
	a.Fleet.Lost(m, w.met)
}

// Rearrange changes nothing: a team stays as it is.
func (a *Attempts) Rearrange() {}

// Holds reports whether a departing machine is still training; its work is saved first.
func (a *Attempts) Holds(m *step.Machine) bool {
	return a.now != nil && slices.Contains(a.now.team, a.workers[m.ID])
}

// Idle reports whether a machine has no work; a lost one has none.
func (a *Attempts) Idle(*step.Machine) bool { return true }

// Connected reports whether a machine's agent has been heard recently.
func (a *Attempts) Connected(m *step.Machine) bool { return a.trainer.Connected(m.ID) }

// Archive removes archived machines.
func (a *Attempts) Archive() {
	a.roster = slices.DeleteFunc(a.roster, func(w *Worker) bool { return w.Archived })
}

// The parts of advance.

func (a *Attempts) take(e step.Event) {
	switch e := e.(type) {
	case elasticity.Listed:
		if a.takingOver {
			a.takingOver = false
			a.Fleet.TakenOver()
		}
	case elasticity.Reported:
		hello, calls := e.Report.(tiers.Hello)
		if w := a.workers[e.ID]; calls && w == nil {
			a.Fleet.Called(e.ID)
		} else if calls && hello.Incarnation == 0 { // otherwise a stream that broke and was restored
			a.takeCall(w)
		}
	}
	a.trainer.Take(e)
}

// takeCall handles the call of an agent that has no state.
func (a *Attempts) takeCall(w *Worker) {
	if w.called || !w.Staying() {
		return
	}
	w.called = true
	if !w.met {
		w.met = true
		a.Fleet.Ready(w.Machine)
	}
}

// Again records that a machine's process is restarting, and calls when ready.
func (a *Attempts) Again(w *Worker) { w.called, w.since = false, a.Awake.Now() }

// giveUp gives up machines whose agents do not call.
func (a *Attempts) giveUp() {
	for _, w := range a.roster {
		if w.called || w.Lost || !a.Awake.Over(w.since, a.cfg.BootWithin) {
			continue
		}
		why := "its agent did not call"
		if w.met {
			why += " again"
		}
		a.Fleet.GiveUp(w.Machine, why)
	}
}

func (a *Attempts) advance() {
	a.train()
	a.save()
	a.part()
}

// train begins when a whole fleet is ready.
func (a *Attempts) train() {
	if a.now != nil || a.Closing() || a.Fleet.Awaiting() || a.saved >= a.clocks {
		return
	}
	var team []*Worker
	machines, vcpu := 0, 0
	for _, w := range a.roster {
		if !w.Staying() {
			continue
		}
		if !w.called {
			return // the others wait for it
		}
		team = append(team, w)
		machines++
		vcpu += w.VCPU
	}
	if len(team) == 0 || machines < a.cfg.Want.Machines || vcpu < a.cfg.Want.VCPU {
		return
	}
	a.began++
	a.now = &attempt{team: team, clock: a.saved, at: a.Now}
	a.trainer.Begin(team, a.saved)
}

// Trained records the team's progress, first when it begins. It reports whether there is any.
func (a *Attempts) Trained(clock ps.Clock, pace time.Duration) (news bool) {
	now := a.now
	if now == nil || clock < now.clock {
		return false
	}
	news = clock > now.clock
	if !now.began {
		now.began, news = true, false
		a.join()
		a.scheduleSave()
	}
	if now.took = pace; pace <= 0 && clock > now.clock {
		now.took = a.Now.Sub(now.at) / time.Duration(clock-now.clock)
	}
	now.clock, now.at, now.pace = clock, a.Now, pace
	a.reached = max(a.reached, clock)
	return news
}

// join makes the team take part.
func (a *Attempts) join() {
	for _, w := range a.now.team {
		a.joins++
		w.Joined = a.joins
	}
	a.Fleet.Reorder()
	a.Fleet.View.Stale()
	from, bytes := a.fetch()
	for i, w := range a.now.team {
		a.Fleet.Joined(w.Machine, func() journal.Entry {
			e := journal.Entry{Clock: int64(a.saved), Why: "the fleet is whole"}
			if i == 0 {
				e.From, e.Bytes = from, bytes
			}
			return e
		})
	}
}

// fetch copies the checkpoint to the team's region, whose store then has it: once, whatever the team's size. Its first machine is billed
// for the transfer.
func (a *Attempts) fetch() (from string, bytes int64) {
	first := a.Fleet.Roster.ByID[a.now.team[0].ID]
	region := first.Pool.Region
	if a.saved > 0 && a.home != "" && a.home != region {
		from, bytes = a.home, a.cfg.Job.State
		first.Moved += bytes
	}
	a.home = region
	return from, bytes
}

func (a *Attempts) scheduleSave() {
	a.now.saveAt = time.Time{}
	if every := cmp.Or(a.cfg.SaveEvery, a.Fleet.SaveEvery); every > 0 && !a.cfg.Continuous {
		a.now.saveAt = a.Now.Add(every)
	}
}

// done returns the highest complete clock as far as is known, extrapolated between reports.
func (a *Attempts) done() ps.Clock {
	now := a.now
	switch {
	case now == nil:
		return a.saved
	case !now.began || now.pace <= 0 || now.saving:
		return now.clock
	}
	return min(now.clock+ps.Clock(a.Now.Sub(now.at)/now.pace), a.clocks)
}

// save takes a checkpoint when one is due: by its interval, at the end of the work or of the run, and before a team is given up.
func (a *Attempts) save() {
	now := a.now
	if now == nil || !now.began || now.saving {
		return
	}
	due := !now.saveAt.IsZero() && !a.Now.Before(now.saveAt)
	if due || now.clock >= a.clocks || a.Stop != "" || now.parting() && !a.cfg.Continuous {
		now.clock, now.at = a.done(), a.Now
		now.saving = true
		a.trainer.Save(now.clock >= a.clocks)
	}
}

// parting reports whether machines of the team are being given up.
func (t *attempt) parting() bool {
	return slices.ContainsFunc(t.team, func(w *Worker) bool { return w.Leaving })
}

// Saved handles the result of the requested checkpoint. With continuous saving it arrives when a team is lost.
func (a *Attempts) Saved(clock ps.Clock, err error) {
	if err == nil {
		if clock > a.saved {
			a.Fleet.Progressed()
		}
		a.saved, a.reached = max(a.saved, clock), max(a.reached, clock)
	}
	now := a.now
	if now == nil || !now.saving {
		if a.saved >= a.clocks && !a.Ending { // continuous saving: the team was lost with the last of the work
			a.finish()
		}
		return
	}
	now.saving, now.at = false, a.Now
	if err != nil {
		a.failSave(err)
		return
	}
	now.clock, now.tries = max(now.clock, clock), 0
	a.scheduleSave()
	switch {
	case a.saved >= a.clocks:
		a.finish()
	case a.Stop != "":
		a.Outcome = "interrupted"
		a.End("the run is over: " + a.Stop)
	case now.parting():
		a.stop("the policy moves the job")
	}
}

func (a *Attempts) finish() {
	a.Outcome = "finished"
	a.End("the run is over: all clocks are done")
}

// failSave retries a little later; at the end of the work the run fails after some tries.
func (a *Attempts) failSave(err error) {
	now := a.now
	now.tries++
	now.saveAt = a.Now.Add(time.Duration(now.tries) * time.Minute)
	if now.tries >= maxSaves {
		a.Fail(fmt.Sprintf("saving a checkpoint failed %d times: %s", now.tries, err))
	}
}

// part ends an attempt whose machines are being given up, once their work is saved.
func (a *Attempts) part() {
	if now := a.now; now != nil && now.parting() && (!now.began || a.cfg.Continuous) {
		a.stop("the policy moves the job")
	}
}

// stop ends an attempt: work since the last checkpoint is lost.
func (a *Attempts) stop(why string) {
	a.reached = max(a.reached, a.done())
	if a.cfg.Continuous && a.now.parting() {
		a.saved = max(a.saved, a.done())
	}
	a.rollback(a.reached-a.saved, why)
	a.cutShort()
	a.Fleet.Replan()
}

// cutShort stops the team.
func (a *Attempts) cutShort() {
	if a.now == nil {
		return
	}
	team := a.now.team
	a.now = nil
	for _, w := range team {
		w.Joined = 0
	}
	a.Fleet.Reorder()
	a.Fleet.View.Stale()
	a.trainer.Stop(team)
}

func (a *Attempts) rollback(lost ps.Clock, why string) {
	a.rollbacks++
	a.lost += lost
	a.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.Rollback, Clock: int64(a.saved), LostClocks: int64(lost), Generation: a.began, Why: why}
	})
}

// nextDue calls by with each time at which something is due even without events.
func (a *Attempts) nextDue(by func(time.Time)) {
	if a.now != nil && !a.now.saving {
		by(a.now.saveAt)
	}
	for _, w := range a.roster {
		if !w.called && !w.Lost {
			by(a.Awake.Due(w.since, a.cfg.BootWithin))
			by(a.Awake.NextBeat())
		}
	}
	a.trainer.NextDue(by)
}
