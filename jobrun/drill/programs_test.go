package drill

import (
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// A drill of programs ends when the programs of the harmed machines run on others; repeated steps are counted.
func TestDrillOfPrograms(t *testing.T) {
	w, at := New(), time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	feed := func(kind journal.Kind, machine, program string, step int64) {
		at = at.Add(time.Second)
		w.Feed(journal.Entry{T: at, Kind: kind, Instance: machine, OfProgram: journal.OfProgram{Program: program}, Clock: step, Tier: "transient", Launched: &at})
	}
	for _, m := range []string{"i-1", "i-2"} {
		feed(journal.Launch, m, "", 0)
		feed(journal.Join, m, "", 0)
	}
	feed(journal.ProgramStart, "i-1", "rank-0", 0)
	feed(journal.ProgramStart, "i-2", "rank-1", 0)
	machines, err := w.Choose(Aim{}, 1)
	if err != nil || len(machines) != 1 || machines[0].ID != "i-1" || !w.Runs() {
		t.Fatalf("%v, %v", machines, err)
	}
	w.Begin(Kill, machines, at)
	feed(journal.ProgramEnd, "i-1", "rank-0", 12)
	feed(journal.ProgramStart, "i-2", "rank-1", 9) // from a machine that was not a target
	if w.Settled() {
		t.Error("it is over before rank-0 runs elsewhere")
	}
	feed(journal.ProgramStart, "i-3", "rank-0", 9)
	var b strings.Builder
	if err := w.Report().WriteText(&b); err != nil || !w.Settled() || !strings.Contains(b.String(), "1 program resumed elsewhere after 3.00 s; 3 steps repeated") {
		t.Errorf("%v, settled %v: %s", err, w.Settled(), &b)
	}
}

// A recommendation takes no machine: the drill ends once the controller knows it, even if it knew before.
func TestRebalanceOfPrograms(t *testing.T) {
	at := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	machine := []Machine{{ID: "i-1"}}
	for _, before := range []bool{false, true} {
		w := New()
		w.Feed(journal.Entry{T: at, Kind: journal.ProgramStart, Instance: "i-1", OfProgram: journal.OfProgram{Program: "rank-0"}})
		notice := journal.Entry{T: at.Add(time.Second), Kind: journal.Notice, Instance: "i-1"}
		if before {
			w.Feed(notice)
		}
		w.Begin(Rebalance, machine, at)
		if w.Settled() != before {
			t.Fatalf("known before: %v, settled %v", before, w.Settled())
		}
		w.Feed(notice)
		var b strings.Builder
		if err := w.Report().WriteText(&b); err != nil || !w.Settled() || !strings.Contains(b.String(), "1 program continued") {
			t.Errorf("%v, settled %v: %s", err, w.Settled(), &b)
		}
	}
}

// Machines that are already leaving are not chosen.
func TestWarnedMachinesAreNotChosen(t *testing.T) {
	w, at := training(t), time.Now()
	first, err := w.Choose(Aim{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.Feed(journal.Entry{Kind: journal.Notice, Instance: first[0].ID, Deadline: &at})
	if next, err := w.Choose(Aim{}, 1); err != nil || next[0].ID == first[0].ID {
		t.Errorf("chosen %v, %v", next, err)
	}
	all, _ := w.Choose(Aim{Which: "all"}, 1)
	for _, m := range all {
		w.Feed(journal.Entry{Kind: journal.Notice, Instance: m.ID, Deadline: &at})
	}
	if _, err := w.Choose(Aim{}, 1); err == nil || !strings.Contains(err.Error(), "without an eviction notice") {
		t.Error(err)
	}
}
