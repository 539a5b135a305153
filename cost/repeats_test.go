package cost

import (
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// What an attempt did before it reached the step of its state again is redone, not useful; a rank that ends because another one failed is
// not lost with a machine.
func TestRepeatedStepsAreRedone(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2020, 1, 1, 0, 0, s, 0, time.UTC) }
	l := &Ledger{start: journal.StartDetails{Program: &journal.ProgramDetails{Of: 200}}}
	for _, e := range []journal.Entry{
		{T: at(10), Kind: journal.ProgramStart, Instance: "i-1", Generation: 2, Clock: 160},
		{T: at(11), Kind: journal.ProgramStep, Generation: 2, Clock: 1, Redone: true},
		{T: at(31), Kind: journal.ProgramStep, Generation: 2, Clock: 100, Redone: true},
		{T: at(41), Kind: journal.ProgramStep, Generation: 2, Clock: 160},
		{T: at(51), Kind: journal.ProgramEnd, Instance: "i-1", Generation: 2, Outcome: journal.Finished},
	} {
		e.Program = "rank-0"
		l.addProgram(e)
	}
	l.addProgram(journal.Entry{T: at(60), Kind: journal.ProgramEnd, OfProgram: journal.OfProgram{Program: "rank-1"}, Generation: 3, Outcome: journal.Lost, Why: journal.FailedElsewhere})
	a := l.programs.newest["rank-0"]
	if useful, wasted := a.useful(at(60)); useful != (interval{at(41), at(51)}) || wasted.length() != 0 {
		t.Errorf("useful %v, wasted %v", useful, wasted)
	}
	a.there = time.Time{} // killed before it got there
	if useful, _ := a.useful(at(60)); useful.length() != 0 {
		t.Errorf("useful %v", useful)
	}
	l.addProgram(journal.Entry{T: at(61), Kind: journal.ProgramEnd, OfProgram: journal.OfProgram{Program: "rank-1"}, Generation: 3, Outcome: journal.Lost, Why: "the controller was restarted"})
	if p := l.ran(at(61)); p.Attempts != 2 || p.Members[1].Attempts != 1 {
		t.Errorf("an end that a restarted controller repeats counts: %+v", p)
	}
	if p := l.ran(at(60)); p.Lost != 0 || p.Others != 1 {
		t.Errorf("%+v", p)
	}
}
