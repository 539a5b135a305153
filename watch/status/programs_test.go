package status

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// A run of programs counts finished tasks, or follows its program's steps, in its own units.
func TestProgramsCountInTheirOwnUnits(t *testing.T) {
	at := time.Date(2014, 4, 1, 0, 0, 0, 0, time.UTC)
	feed := func(p journal.ProgramDetails, clocks int64, entries ...journal.Entry) *Status {
		details, err := json.Marshal(journal.StartDetails{Clock: "2014-04-01T00:00:00Z@2014-04-01T00:00:00Z*1", Rules: "ec2-now", Clocks: clocks, Program: &p})
		if err != nil {
			t.Fatal(err)
		}
		s := New()
		s.Feed(journal.Entry{T: at, Kind: journal.Start, Details: details})
		for _, e := range entries {
			e.T = at
			s.Feed(e)
		}
		return s
	}
	of := func(name string) journal.OfProgram { return journal.OfProgram{Program: name} }
	tasks := feed(journal.ProgramDetails{Tasks: 3}, 3,
		journal.Entry{Kind: journal.ProgramStep, OfProgram: of("task-0"), Clock: 70},
		journal.Entry{Kind: journal.ProgramEnd, OfProgram: of("task-0"), Outcome: journal.Finished, Clock: 80},
		journal.Entry{Kind: journal.ProgramEnd, OfProgram: of("task-1"), Outcome: journal.Lost, Clock: 3})
	if text := tasks.ClockText(); tasks.Unit() != "task" || !strings.HasPrefix(text, "task 1/3, 0 machines") {
		t.Errorf("%q", text)
	}
	loss := 0.25
	one := feed(journal.ProgramDetails{Of: 100}, 100, journal.Entry{Kind: journal.ProgramStep, OfProgram: of("rank-0"), Clock: 70, TrainLoss: &loss})
	if text := one.ClockText(); one.Unit() != "step" || !strings.HasPrefix(text, "step 70/100: train 0.2500, 0 machines") {
		t.Errorf("%q", text)
	}
}
