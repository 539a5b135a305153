package programs

import (
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/sched/trials"
	"github.com/tierml/tierml/tiers"
)

// takeFeedback records a trial's loss when it has reached its next rung: the first loss reported there.
func (w *Work) takeFeedback(it *unit, e tiers.ProgramAdvanced) bool {
	if s := w.cfg.Sweep; s == nil || !e.HasLoss || len(it.losses) == len(s.Rungs) || e.Step < s.Rungs[len(it.losses)].At {
		return false
	}
	it.losses = append(it.losses, e.Loss)
	w.compare = true
	it.lineAt = w.Now
	w.Record(func() journal.Entry {
		return journal.Entry{Kind: journal.ProgramStep, OfProgram: journal.OfProgram{Program: it.ranks[0].key, Round: uint64(len(it.losses))},
			Generation: it.attempt, Clock: e.Step, TrainLoss: journal.Loss(e.Loss)}
	})
	return true
}

// judgeTrials pauses trials at their rungs until they are certain to continue, and drops those that cannot. It draws the settings of later
// trials if they depend on results.
func (w *Work) judgeTrials() {
	if w.cfg.Sweep == nil || w.Closing() {
		return
	}
	if w.compare {
		w.compare = false
		all := w.outcomes()
		for i, v := range trials.Decide(w.cfg.Sweep.Rungs, all) {
			w.items[i].verdict = v
		}
		w.draw(all)
	}
	for _, it := range w.items {
		switch v := it.verdict; {
		case it.over || v.Decision == trials.Goes:
		case it.running() && it.winding.IsZero():
			w.wind(it, "feedback: "+v.Why)
		case !it.running() && v.Decision == trials.Out:
			it.over, it.ok, it.dropped = true, true, true
			w.Record(func() journal.Entry {
				return journal.Entry{Kind: journal.ProgramDropped, OfProgram: journal.OfProgram{Program: it.ranks[0].key}, Clock: it.kept.step(), Why: v.Why}
			})
		}
	}
}

// outcomes returns the trials' progress.
func (w *Work) outcomes() []trials.Trial {
	all := make([]trials.Trial, len(w.items))
	for i, it := range w.items {
		all[i] = trials.Trial{Settings: w.settings[i], Losses: it.losses, Ended: it.over && !it.dropped, Failed: it.over && !it.ok && it.cancel == "",
			Stopped: it.over && !it.ok && it.cancel != "", Last: lossOf(it.ranks[0].loss)}
	}
	return all
}

// draw assigns settings to trials without any, in order, as far as results permit. The journal has the settings of trials that have begun;
// others may get different ones from the next controller, which knows more results.
func (w *Work) draw(all []trials.Trial) {
	for i, settings := range w.settings {
		if settings != nil {
			continue
		}
		settings, ready := w.cfg.Sweep.Draw(all[:i])
		if !ready {
			return // later ones need more results
		}
		w.settings[i] = settings
	}
}
