package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tierml/tierml/internal/exitcode"

	"github.com/tierml/tierml/internal/journal"
)

// ProgramRow is one program of a run.
type ProgramRow struct {
	Program  string   `json:"program"`
	Status   string   `json:"status"` // "waiting", "running", or how its last attempt ended
	Machine  string   `json:"machine,omitempty"`
	Attempts uint64   `json:"attempts"`
	Step     int64    `json:"step"`
	Loss     *float64 `json:"loss,omitempty"`
	Code     int      `json:"exit_code"`
	Bytes    int64    `json:"state_bytes"`
	Saved    int64    `json:"saved"`              // step of the newest state
	Manifest string   `json:"manifest,omitempty"` // its manifest
	Digest   string   `json:"digest,omitempty"`
	Why      string   `json:"why,omitempty"`
}

// ProgramsOf finds the programs of a run in its journal, in order of their names.
func ProgramsOf(run string, entries []journal.Entry, wanted []string) ([]*ProgramRow, error) {
	byName := map[string]*ProgramRow{}
	ours := false
	for _, e := range entries {
		if e.Kind == journal.Start {
			d, err := e.StartDetails()
			ours = err == nil && d.Program != nil
			for i := 0; ours && i < d.Program.Tasks; i++ {
				name := fmt.Sprintf("task-%d", i)
				if byName[name] == nil {
					byName[name] = &ProgramRow{Program: name, Status: "waiting"}
				}
			}
		}
		if e.Program == "" {
			continue
		}
		row := byName[e.Program]
		if row == nil {
			row = &ProgramRow{Program: e.Program}
			byName[e.Program] = row
		}
		row.take(e)
	}
	if !ours {
		return nil, exitcode.Wrong(fmt.Errorf("%s trains an application: it has no programs; `tierml top` shows how far it is", run))
	}
	var rows []*ProgramRow
	for _, row := range byName {
		if len(wanted) == 0 || slices.Contains(wanted, row.Program) {
			rows = append(rows, row)
		}
	}
	for _, name := range wanted {
		if byName[name] == nil {
			return nil, exitcode.Wrong(fmt.Errorf("%s has no program %s; `tierml state %[1]s` lists them", run, name))
		}
	}
	slices.SortFunc(rows, func(a, b *ProgramRow) int {
		if len(a.Program) != len(b.Program) { // task-2 before task-10
			return len(a.Program) - len(b.Program)
		}
		return strings.Compare(a.Program, b.Program)
	})
	return rows, nil
}

func (r *ProgramRow) take(e journal.Entry) {
	switch e.Kind {
	case journal.ProgramStart:
		r.Status, r.Machine, r.Why, r.Code = "running", e.Instance, "", 0
		r.Attempts++
		r.Step = max(r.Step, e.Clock)
	case journal.ProgramStep:
		r.Step, r.Loss = e.Clock, e.TrainLoss
	case journal.ProgramSaved:
		r.Bytes, r.Saved, r.Manifest, r.Digest = e.Bytes, e.Clock, e.Model, e.Digest
	case journal.ProgramEnd:
		r.Status, r.Machine, r.Code, r.Why = e.Outcome, "", e.Code, e.Why
		if e.Clock > 0 {
			r.Step = e.Clock
		}
	}
}
