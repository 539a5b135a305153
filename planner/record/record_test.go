package record

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/planner"
)

func entry(run string, replayed bool, usd float64) Entry {
	return Entry{Run: run, Replayed: replayed, Policy: "tierml", Cost: journal.Estimate{Low: 1, Mid: 2, High: 3}, Runtime: journal.Estimate{Low: 10, Mid: 20, High: 30},
		USD: usd, Seconds: 10 * usd}
}

// Runs that end together, a truncated line and another program's text: complete lines count, once.
func TestReadCountsWhatIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.jsonl")
	if own, err := Read(path, false); err != nil || own.Runs != 0 {
		t.Fatalf("without a file: %+v, %v", own, err)
	}
	if err := os.WriteFile(path, []byte(`{"run":"half","cost":{"lo`), 0o644); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for _, replayed := range []bool{true, false} {
				if err := Append(path, entry(fmt.Sprint("job-", i), replayed, float64(i%4)+.5)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if own, err := Read(path, false); err != nil || own != (planner.Own{Runs: 20, ByCost: 10, ByTime: 10}) {
		t.Errorf("%+v, %v", own, err)
	}
	if own, err := Read(path, true); err != nil || own.Runs != 1 || !own.Replayed {
		t.Errorf("replays of one plan: %+v, %v", own, err)
	}
}

// The first plan of a finished run counts; unfinished runs, and plans without a range, do not.
func TestOf(t *testing.T) {
	plan := func(low, high float64) journal.Entry {
		details, err := journal.Pack(journal.PlanDetails{Cost: journal.Estimate{Low: low, High: high}, Runtime: journal.Estimate{Low: 1, High: 2}})
		if err != nil {
			t.Fatal(err)
		}
		return journal.Entry{Kind: journal.Plan, Details: details}
	}
	of := func(outcome string, entries ...journal.Entry) (Entry, bool) {
		report := &cost.Report{Run: cost.Run{Outcome: outcome, Policy: "tierml", Seconds: 7}, Totals: cost.Totals{Total: 2_500_000_000}}
		e, ok, err := Of(func(yield func(journal.Entry, error) bool) {
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
		}, report, "job-1", true)
		if err != nil {
			t.Fatal(err)
		}
		return e, ok
	}
	e, ok := of("finished", journal.Entry{Kind: journal.Start}, plan(1, 3), plan(5, 6))
	if !ok || e.Cost.High != 3 || e.USD != 2.5 || e.Seconds != 7 || e.Policy != "tierml" || !e.Replayed || !strings.HasPrefix(e.Run, "job") {
		t.Errorf("%+v, %v", e, ok)
	}
	for name, there := range map[string]bool{
		"interrupted": second(of("interrupted", plan(1, 3))), "without a range": second(of("finished", plan(0, 0))), "without a plan": second(of("finished")),
	} {
		if there {
			t.Errorf("a run %s counts", name)
		}
	}
}

func second(_ Entry, ok bool) bool { return ok }

// The folder of runs is open to other users of a host, but the record of jobs is not.
func TestRecordIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.jsonl")
	if err := Append(path, entry("job-1", true, 1)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
