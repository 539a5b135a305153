package cost

import (
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// Tasks are counted by how they ended.
func TestTasksAreCounted(t *testing.T) {
	l := &Ledger{start: journal.StartDetails{Program: &journal.ProgramDetails{Tasks: 6}}}
	at := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	attempt := uint64(0)
	line := func(task, outcome string, begins bool) {
		of := journal.OfProgram{Program: task}
		if begins {
			attempt++
			l.addProgram(journal.Entry{T: at, Kind: journal.ProgramStart, OfProgram: of, Instance: "a", Generation: attempt})
		}
		l.addProgram(journal.Entry{T: at, Kind: journal.ProgramEnd, OfProgram: of, Outcome: outcome, Generation: attempt})
	}
	line("task-0", journal.Finished, true)
	line("task-1", journal.Lost, true)
	line("task-1", journal.Finished, true)
	line("task-2", journal.Failure, true)
	line("task-3", journal.Stopped, true)
	line("task-3", journal.Cancelled, false)
	line("task-4", journal.Cancelled, false) // it never ran
	if got := l.ran(at).words(); got != "2 of 6 tasks done, 1 failed, 2 cancelled, 1 given out again; 5 attempts: 1 stopped cleanly, 1 lost with machines, 1 failed by themselves" {
		t.Error(got)
	}
}
