// Package record keeps the predictions of plans and the results of their runs in a file next to the runs. It knows nothing about jobs or
// markets.
//
// Invariant: each line is written in one call and begins on a new line, so that lines of runs that end together do not mix, and a process
// that dies while writing damages only its own line. Damaged lines are ignored.
package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/planner"
)

// Entry is a plan and its result. Costs are in dollars, times in market seconds.
type Entry struct {
	Run      string           `json:"run"`
	Replayed bool             `json:"replayed,omitempty"` // on the fake cloud
	Policy   string           `json:"policy"`
	Cost     journal.Estimate `json:"cost"`
	Runtime  journal.Estimate `json:"runtime"`
	USD      float64          `json:"usd"`
	Seconds  float64          `json:"seconds"`
}

// Of returns the entry of a finished run, from its journal and report; ok is false if it did not finish or its plan had no range.
func Of(entries func(yield func(journal.Entry, error) bool), report *cost.Report, run string, replayed bool) (e Entry, ok bool, err error) {
	if report.Run.Outcome != "finished" {
		return e, false, nil
	}
	for line, err := range entries {
		if err != nil {
			return e, false, err
		}
		if line.Kind != journal.Plan {
			continue
		}
		plan, err := line.PlanDetails() // the first; the plan of a resumed run covers only the rest
		if err != nil || plan.Cost.High <= 0 || plan.Runtime.High <= 0 {
			return e, false, err
		}
		return Entry{Run: run, Replayed: replayed, Policy: report.Run.Policy, Cost: plan.Cost, Runtime: plan.Runtime,
			USD: float64(report.Totals.Total) / 1e9, Seconds: report.Run.Seconds}, true, nil
	}
	return e, false, nil
}

// Append adds an entry to a file.
func Append(path string, e Entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("storing the plan's outcome: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("storing the plan's outcome: %w", err)
	}
	_, err = file.Write(slices.Concat([]byte("\n"), text, []byte("\n")))
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("storing the plan's outcome: %w", err)
	}
	return nil
}

// Read returns how well plans of finished runs held, for replayed prices or for the others; zero if the file does not exist. Of several
// replayed runs by one plan the last counts, as all meet the same prices.
func Read(path string, replayed bool) (own planner.Own, err error) {
	own.Replayed = replayed
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return own, nil
	}
	if err != nil {
		return own, fmt.Errorf("reading the record of plans: %w", err)
	}
	defer file.Close()
	type plan struct {
		policy        string
		cost, runtime journal.Estimate
	}
	last, entries := map[plan]int{}, []Entry{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var e Entry
		if len(bytes.TrimSpace(lines.Bytes())) == 0 || json.Unmarshal(lines.Bytes(), &e) != nil || e.Replayed != replayed || e.Cost.High <= 0 {
			continue
		}
		key := plan{e.Policy, e.Cost, e.Runtime}
		if i, known := last[key]; known && replayed {
			entries[i] = e
			continue
		}
		last[key] = len(entries)
		entries = append(entries, e)
	}
	for _, e := range entries {
		own.Runs++
		if inside(e.Cost, e.USD) {
			own.ByCost++
		}
		if inside(e.Runtime, e.Seconds) {
			own.ByTime++
		}
	}
	if err := lines.Err(); err != nil {
		return own, fmt.Errorf("reading the record of plans: %w", err)
	}
	return own, nil
}

func inside(of journal.Estimate, figure float64) bool { return of.Low <= figure && figure <= of.High }
