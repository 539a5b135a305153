package programs

import (
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/sched/trials"
	"github.com/tierml/tierml/tiers"
)

// settingsOf are those of a sweep's trial; nil = it is none.
func (w *Work) settingsOf(it *unit) map[string]string {
	if w.cfg.Sweep == nil {
		return nil
	}
	return w.settings[it.number]
}

// takeFeedback writes down a trial's loss when it has come to its next rung: the first that it reports there.
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

// judgeTrials pauses trials at their rungs until it is certain that they continue, and drops those that cannot.
func (w *Work) judgeTrials() {
	if w.cfg.Sweep == nil || len(w.cfg.Sweep.Rungs) == 0 || w.Closing() {
		return
	}
	if w.compare {
		w.compare = false
		w.compareTrials()
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

func (w *Work) compareTrials() {
	all := make([]trials.Trial, len(w.items))
	for i, it := range w.items {
		all[i] = trials.Trial{Losses: it.losses, Ended: it.over && !it.dropped, Failed: it.over && !it.ok}
	}
	for i, v := range trials.Decide(w.cfg.Sweep.Rungs, all) {
		w.items[i].verdict = v
	}
}
