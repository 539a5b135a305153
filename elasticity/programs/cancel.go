package programs

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/tierml/tierml/internal/journal"
)

// Cancel ends one task of an array permanently: its state is saved, and it is not assigned again.
func (w *Work) Cancel(program, by string) error {
	if w.cfg.Tasks == 0 {
		return errors.New("the run is one program and has no tasks; stop the run")
	}
	if w.Closing() {
		return errors.New("the run is ending")
	}
	for _, it := range w.items {
		switch {
		case it.ranks[0].key != program:
			continue
		case it.ok:
			return fmt.Errorf("%s is done", program)
		case it.over && it.cancel == "":
			return fmt.Errorf("%s has failed", program)
		}
		it.cancel = cmp.Or(it.cancel, by)
		if it.running() && it.winding.IsZero() {
			w.wind(it, by)
		}
		return nil
	}
	return fmt.Errorf("the run has no %s: its tasks are 0 to %d", program, w.cfg.Tasks-1)
}

// cancelled ends tasks that a user cancelled, once they have stopped.
func (w *Work) cancelled() {
	for _, it := range w.items {
		if it.cancel == "" || !it.waiting() {
			continue
		}
		it.over, w.compare = true, true
		w.fleet.Progressed()
		w.Record(func() journal.Entry {
			return journal.Entry{Kind: journal.ProgramEnd, OfProgram: journal.OfProgram{Program: it.ranks[0].key}, Clock: it.kept.step(), Outcome: journal.Cancelled, Why: it.cancel}
		})
	}
}
