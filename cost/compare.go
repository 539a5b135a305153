package cost

import (
	"fmt"
	"io"
	"time"

	"github.com/tierml/tierml/internal/grid"
	"github.com/tierml/tierml/internal/journal/words"
)

// Named is the report of one run among several.
type Named struct {
	Name   string  `json:"name"` // such as its directory
	Report *Report `json:"report"`
}

// WriteComparison shows the figures of several runs side by side, as a table, and the later ones relative to the first.
func WriteComparison(w io.Writer, width int, runs []Named) error {
	t := newText(w, width, comparisonWidth)
	tab := &grid.Grid{Head: []string{"run", "policy", "outcome", ">clocks", ">hours", ">US$", ">machine h", ">evicted",
		">roll-backs", ">lost", ">redone h", ">US$", "test"}}
	for _, run := range runs {
		r := run.Report
		test := "-"
		if r.Training.TestLoss != nil {
			test = fmt.Sprintf("%.4f", *r.Training.TestLoss)
		}
		tab.Add(run.Name, r.Run.Policy, r.Run.Outcome, fmt.Sprint(r.Training.Clocks), fmt.Sprintf("%.2f", r.Run.Seconds/3600),
			money(r.Totals.Total), fmt.Sprintf("%.1f", r.Totals.MachineHours), fmt.Sprint(r.Totals.Evictions),
			fmt.Sprint(r.Totals.Rollbacks), fmt.Sprint(r.Training.LostClocks), fmt.Sprintf("%.2f", r.Waste.Redone.Seconds/3600),
			money(r.Waste.Redone.USD), test)
	}
	t.table("", tab)
	t.indented("Hours are market time, from the first line of the journal to the last; lost are clocks that roll-backs undid, and redone what " +
		"doing them again took and cost.")
	first := runs[0]
	for _, run := range runs[1:] {
		t.indented("%s", against(first, run))
	}
	return t.err
}

// comparisonWidth holds the table: a run's figures stay on one line.
const comparisonWidth = 132

// against compares a run with the first.
func against(first, run Named) string {
	a, b := first.Report, run.Report
	line := fmt.Sprintf("%s against %s: ", run.Name, first.Name)
	if a.Run.Outcome != "finished" || b.Run.Outcome != "finished" || a.Training.Clocks != b.Training.Clocks {
		return line + "not the same work"
	}
	if a.Totals.Total > 0 {
		line += fmt.Sprintf("%+.1f %% cost, ", 100*(float64(b.Totals.Total)/float64(a.Totals.Total)-1))
	}
	difference := time.Duration((b.Run.Seconds - a.Run.Seconds) * float64(time.Second))
	return line + fmt.Sprintf("%+.1f %% time (%s), %s lost more", 100*(b.Run.Seconds/a.Run.Seconds-1),
		signed(difference), words.Number(int(b.Training.LostClocks-a.Training.LostClocks), "clock"))
}

func signed(d time.Duration) string {
	if d < 0 {
		return "-" + words.Duration(-d.Seconds())
	}
	return "+" + words.Duration(d.Seconds())
}
