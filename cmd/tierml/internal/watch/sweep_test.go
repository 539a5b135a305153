package watch

import (
	"strings"
	"testing"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/watch/dashboard"
)

// A sweep that was stopped before any trial finished names the best so far, and why it was stopped.
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

// A program's sweep counts in steps and has one loss; its best trial is shown with its settings.
func TestSweepOfAProgram(t *testing.T) {
	loss := .125
	report := &cost.Report{Run: cost.Run{Name: "rates", Kind: journal.Sweep, Metric: "loss", Seconds: 60}, Programs: &cost.Programs{Tasks: 3, Of: 20, Trials: []cost.Trial{
		{Task: 2, Outcome: "done", Step: 20, Loss: &loss, Settings: map[string]string{"RATE": "0.1"}}, {Task: 0, Outcome: "dropped", Step: 5, Why: "number 3 at step 5"}}}}
	s, ok := dashboard.ProgramSweep("rates-1", report)
	if !ok {
		t.Fatal("it is no sweep")
	}
	var out strings.Builder
	if err := showSweep(&out, s, table.Plain); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"LOSS    STEP", "task-2  RATE 0.1  done     0.1250  20/20", "3 trials: 1 done, 1 dropped, 1 to come.", "The best is task-2, with a loss of 0.1250: RATE 0.1. `tierml state rates-1 task-2"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	report.Run.Kind = journal.Array
	if _, ok := dashboard.ProgramSweep("rates-1", report); ok {
		t.Error("an array is no sweep")
	}
}
