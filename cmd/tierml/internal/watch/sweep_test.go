package watch

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/watch/dashboard"
)

// A sweep that was stopped before a trial had finished names the best so far, and why it was stopped.
func TestAStoppedSweepNamesTheBestSoFar(t *testing.T) {
	good, bad := .25, .5
	s := dashboard.Sweep{ID: "rates-1", Of: 2, Spent: "5.25", Budget: "5", Why: "the sweep's budget of $5.00 is spent", Trials: []dashboard.Trial{
		{Run: "rates-1", State: "stopped", Test: &bad, Clock: 20, Clocks: 40},
		{Run: "rates-2", State: "stopped", Test: &good, Clock: 12, Clocks: 40, Params: map[string]any{"step": .125}},
	}}
	s.Rank()
	var out strings.Builder
	if err := showSweep(&out, s, table.Plain); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"All were stopped: the sweep's budget", "No trial has finished. The best so far is rates-2, with a test loss of 0.2500 at clock 12/40: step 0.125\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
