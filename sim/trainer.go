package sim

import (
	"math"
	"slices"
	"time"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	"github.com/tierml/tierml/elasticity/programs"
	"github.com/tierml/tierml/elasticity/restart"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
)

// brain makes a run's decisions: an elasticity.Controller, or a restart.Controller for policies without a reliable
// tier.
type brain interface {
	Step(now time.Time, events ...elasticity.Event) []elasticity.Action
	NextWake() time.Time
	Totals() elasticity.Totals
}

// process is what runs on a machine.
type process interface {
	boot()
	die()
}

// agents are all agents together, which do the training.
type agents interface {
	// hire returns a new machine's agent, which does rate vCPU hours of work per hour.
	hire(id ps.ServerID, rate float64) process
	// do carries out the brain's actions on training.
	do(elasticity.Action)
	// deliverBefore reports to the brain, before other events, what was due earlier; deliverNow returns what is due
	// now, and deliverAll schedules the rest. They do nothing if no report is waiting.
	deliverBefore(now time.Duration)
	deliverNow(now time.Duration) []elasticity.Event
	deliverAll()
	// skipCuts is called before the brain wakes up, and reports whether it can sleep on.
	skipCuts() bool
	// settleInstant is called before time advances.
	settleInstant()
}

// trainer is training by restart from checkpoints: a team works while all its machines live. Its work advances evenly,
// so that only checkpoints happen between a start and an end.
type trainer struct {
	w     *world
	crew  map[ps.ServerID]*simNode
	round int // counts starts and ends: events scheduled in an older round are void
	teams int // counts teams, as checkpoints belong to one

	team  []*simNode
	done  float64 // clocks done when the team began or resumed
	since time.Duration
	rate  float64 // clocks per nanosecond; 0 = no training
	saved float64
}

// simNode is a machine of a trainer.
type simNode struct {
	t     *trainer
	id    ps.ServerID
	rate  float64
	spot  bool // checkpoints are taken because of spot machines
	alive bool
}

func newTrainer(w *world) *trainer { return &trainer{w: w, crew: map[ps.ServerID]*simNode{}} }

func (t *trainer) hire(id ps.ServerID, rate float64) process {
	r := &simNode{t: t, id: id, rate: rate, spot: t.w.cloud.byID[instanceID(id)].Pool.Class == market.Spot, alive: true}
	t.crew[id] = r
	return r
}

func (r *simNode) boot() {
	if r.alive {
		r.t.w.step(elasticity.Reported{ID: r.id, Report: tiers.Hello{Instance: r.id, Address: string(r.id)}})
	}
}

// die ends the machine, and with it its team's work.
func (r *simNode) die() {
	r.alive = false
	t := r.t
	if !slices.Contains(t.team, r) {
		return
	}
	t.rest()
	t.disband()
	if t.w.cfg.Continuous {
		t.saved = t.done
		t.w.after(t.w.cfg.Timing.Reply, losses, func() { t.w.step(elasticity.Saved{Clock: ps.Clock(t.saved)}) })
	}
}

func (t *trainer) do(a elasticity.Action) {
	switch a := a.(type) {
	case elasticity.Train:
		t.train(a)
	case elasticity.Save:
		t.save()
	}
}

func (t *trainer) deliverBefore(time.Duration)                 {}
func (t *trainer) deliverNow(time.Duration) []elasticity.Event { return nil }
func (t *trainer) deliverAll()                                 {}
func (t *trainer) skipCuts() bool                              { return false }
func (t *trainer) settleInstant()                              {}

// train starts a team once it has read the checkpoint.
func (t *trainer) train(a elasticity.Train) {
	t.rest()
	t.disband()
	for _, id := range a.Machines {
		if r := t.crew[id]; r != nil && r.alive {
			t.team = append(t.team, r)
		}
	}
	if len(t.team) < len(a.Machines) {
		t.team = nil // its brain will be told
		return
	}
	round := t.round
	_, restart := t.w.cfg.saving()
	t.w.after(restart, reports, func() {
		if t.round == round {
			t.done = t.saved
			t.work()
		}
	})
}

// work starts the team's work now, and schedules its reports.
func (t *trainer) work() {
	t.round++
	job, clocks := &t.w.cfg.Job, float64(t.w.cfg.Job.Clocks)
	perSecond := 0.0
	for _, r := range t.team {
		rate := r.rate * t.w.cfg.FLOPSPerVCPU / t.w.cfg.Timing.Speed
		if r.spot {
			rate /= 1 + t.w.cfg.Checkpoints.Overhead
		}
		perSecond += rate
	}
	exchange := float64(len(t.team)) * t.w.cfg.Timing.Clock.Seconds()
	t.rate = 1 / (job.Work/clocks/perSecond + exchange) / float64(time.Second)
	t.since = t.w.elapsed
	t.w.step(elasticity.Trained{Clock: ps.Clock(t.done), Pace: time.Duration(1/t.rate) + 1})
	round := t.round
	t.w.after(time.Duration((clocks-t.done)/t.rate)+1, reports, func() {
		if t.round == round {
			t.rest()
			t.done = clocks
			t.w.step(elasticity.Trained{Clock: job.Clocks, Pace: time.Second})
		}
	})
}

// rest stops the work, and keeps its progress.
func (t *trainer) rest() {
	t.round++
	if t.rate > 0 {
		t.w.worked(t.since, t.w.elapsed)
	}
	t.done = min(t.done+t.rate*float64(t.w.elapsed-t.since), float64(t.w.cfg.Job.Clocks))
	t.rate, t.since = 0, t.w.elapsed
}

func (t *trainer) disband() {
	t.teams++
	t.team = nil
}

// save takes a checkpoint, which stops the team if that is declared or assumed. The fake cloud's machines continue
// training, and save their present clock once it is complete.
func (t *trainer) save() {
	if len(t.team) == 0 {
		return
	}
	t.rest()
	whole, team, c := float64(t.w.cfg.Job.Clocks), t.teams, &t.w.cfg.Checkpoints
	mark := t.done
	delay, _ := t.w.cfg.saving()
	if mark < whole && !t.w.cfg.Settings.Remote && c.Save == 0 && c.Bandwidth == 0 {
		mark = math.Floor(mark) + 1
		t.work()
		delay += time.Duration((mark - t.done) / t.rate)
	}
	t.w.after(delay, answers, func() {
		if t.teams != team {
			return // the team is gone, and so is the checkpoint
		}
		t.saved = mark
		t.w.step(elasticity.Saved{Clock: ps.Clock(t.saved)})
		if t.teams == team && t.done < whole {
			t.rest()
			t.work()
		}
	})
}

// newBrain returns the controller for the run's policy, and the training that it controls.
func newBrain(w *world) (brain, agents) {
	if w.cfg.Programs != nil {
		return programs.New(w.cfg.Restarter(), w.cfg.forPrograms()), newCast(w)
	}
	if _, ok := w.cfg.Policy.(bidding.ByRestart); ok {
		return restart.New(w.cfg.Restarter(), restart.Driven), newTrainer(w)
	}
	f := newFleet(w)
	f.ctrl = elasticity.New(w.cfg.Controller())
	return f.ctrl, f
}

// transfer returns how long the model takes between the fleet and the storage.
func (w *world) transfer() time.Duration {
	save, _ := w.cfg.Checkpoints.Times(w.cfg.Timing)
	return save
}
