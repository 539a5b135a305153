package drill

import (
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
)

// A drill of programs ends when the programs of the harmed machines run on others; steps that are done again are counted.
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
	feed(journal.ProgramStart, "i-2", "rank-1", 9) // of a machine that was not meant
	if w.Settled() {
		t.Error("it is over before rank-0 runs elsewhere")
	}
	feed(journal.ProgramStart, "i-3", "rank-0", 9)
	var b strings.Builder
	if err := w.Report().WriteText(&b); err != nil || !w.Settled() || !strings.Contains(b.String(), "1 program went on elsewhere 3.00 s after it; 3 steps done again") {
		t.Errorf("%v, settled %v: %s", err, w.Settled(), &b)
	}
}
