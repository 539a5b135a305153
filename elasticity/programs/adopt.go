package programs

import (
	"slices"
	"time"

	"github.com/tierml/tierml/elasticity/step"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/tiers"
)

// A controller that takes over a run adopts running programs: a program continues if all its machines reconnect and name the attempt whose
// start is in the journal. Anything else restarts from its saved state, including programs that were only being prepared. Until all
// machines have reconnected or their time is up, nothing is bought or assigned, and reports are queued.

// adoptWithin returns how long machines have to reconnect after the provider has listed them, as in elasticity/training.
func (c *Config) adoptWithin() time.Duration { return 3 * max(c.DeadAfter, c.BrokenAfter) }

// claimed handles a call during a take-over, and returns the attempt that the machine names.
func (x *worker) claimed(hello tiers.Hello) uint64 {
	x.claim, x.claims = uint64(hello.Incarnation), true
	if x.Joined > 0 {
		x.called, x.met = true, true
	}
	return x.claim
}

// adoption handles the programs of the previous controller.
type adoption struct{ *Work }

// takeOver ends the take-over once it is known what each machine runs.
func (w adoption) takeOver() {
	if !w.takingOver || w.listed.IsZero() {
		return
	}
	late := w.Awake.Over(w.listed, w.cfg.adoptWithin())
	for _, x := range w.roster {
		if w.Ending || x.Joined == 0 || x.claims || x.Lost || x.Ended || x.Terminating {
			continue
		}
		if !late {
			return
		}
		w.fleet.GiveUp(x.Machine, "the machine did not reconnect to the restarted controller")
	}
	w.takingOver = false
	w.fleet.TakenOver()
	open, adopted := map[string]PastAttempt{}, 0
	for _, a := range w.cfg.Past.Open {
		open[a.Key] = a
	}
	for _, it := range w.items {
		if w.adopt(it, open) {
			adopted += len(it.ranks)
		}
	}
	w.forget(func(a PastAttempt) bool {
		x := w.workers[step.ID(a.Instance)]
		return x == nil || x.on == nil || x.on.attempt != a.Attempt
	})
	w.stopOthers()
	w.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.TakeOver, Count: adopted, Why: "the controller was restarted"}
	})
	for _, x := range w.roster {
		aside := x.aside
		x.aside = nil
		for _, r := range aside {
			w.takeReport(x.ID, r)
		}
	}
}

// adopt lets a program continue if all its machines are running it.
func (w adoption) adopt(it *unit, open map[string]PastAttempt) bool {
	first := open[Key(w.cfg.Tasks, it.number)].Attempt
	for i := range w.cfg.ranks() { // if a gang has fewer machines than its maximum, the journal does not show whether a rank is missing
		a, began := open[Key(w.cfg.Tasks, it.number+i)]
		x := w.workers[step.ID(a.Instance)]
		if !began || it.over || a.Attempt != first || x == nil || x.Lost || x.Ended || x.Terminating || x.claim != a.Attempt {
			return false
		}
	}
	it.resize(w.cfg.ranks(), w.cfg)
	for i := range it.ranks {
		r := &it.ranks[i]
		a := open[r.key]
		x := w.workers[step.ID(a.Instance)]
		*r = rank{key: r.key, w: x, startedAt: w.Now, step: a.Step, loss: r.loss}
		x.on, x.heard = it, w.Awake.Now()
		it.attempt = a.Attempt
	}
	it.began, it.ready, it.since, it.round = w.Now, w.Now, w.Now, w.cfg.Past.Programs[it.number].Round
	w.scheduleSave(it)
	return true
}

// stopOthers ends attempts that were not adopted: none may run next to its successor.
func (w adoption) stopOthers() {
	for _, x := range w.roster {
		if x.claim != 0 && x.on == nil && x.Staying() {
			w.send(x, tiers.StopProgram{Attempt: x.claim, Grace: w.cfg.Grace})
		}
	}
	for _, a := range w.cfg.Past.Open {
		x := w.workers[step.ID(a.Instance)]
		if x != nil && (x.on != nil || x.claims && x.claim != a.Attempt) {
			continue // adopted, or its machine reports that it has ended
		}
		for _, it := range w.items {
			if !it.over && (!w.cfg.apart() || a.Key == Key(w.cfg.Tasks, it.number)) {
				it.orphaned(w.Work, x)
			}
		}
	}
}

// finished reports whether the program of a rank or task had succeeded.
func (p *Past) finished(items []*unit, key string) bool {
	return slices.ContainsFunc(items, func(it *unit) bool {
		return p.Programs[it.number].Finished && slices.ContainsFunc(it.ranks, func(r rank) bool { return r.key == key })
	})
}

// forget records the attempts that ended with the previous controller.
func (w adoption) forget(those func(PastAttempt) bool) {
	for _, a := range w.cfg.Past.Open {
		if !those(a) {
			continue
		}
		if !w.cfg.Past.finished(w.items, a.Key) {
			w.breaks++
		}
		w.Record(func() journal.Entry {
			e := journal.Entry{Kind: journal.ProgramEnd, OfProgram: journal.OfProgram{Program: a.Key}, Instance: a.Instance, Generation: a.Attempt, Outcome: journal.Lost,
				Clock: a.Step, Why: "the controller was restarted"}
			if w.cfg.Past.finished(w.items, a.Key) { // the others of its gang are in the journal
				e.Outcome, e.Why = journal.Finished, ""
			}
			return e
		})
	}
}
