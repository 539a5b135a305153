package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/table"
)

func NewStateCommand() *cobra.Command {
	var to, format string
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "state [RUN [PROGRAM...]]",
		Short: "List the programs of a run, and copy their saved state",
		Long: `PROGRAM is a name such as rank-0 or task-17. --to copies also while the run continues.
` + cli.WhichRun,
		Example: `  tierml state sweep-1
  tierml state sweep-1 task-3 --to results`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
				return showState(ctx, runs, args, to, format, cmd.OutOrStdout())
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "copy the newest states to this `folder`")
	cli.OutputFlag(cmd, &format)
	at.Flags(cmd)
	return cmd
}

// showState lists the programs of a run, or copies their states to a folder.
func showState(ctx context.Context, runs target.Runs, args []string, to, format string, out io.Writer) error {
	name, _, err := runs.Get(ctx, target.First(args))
	if err != nil {
		return err
	}
	var entries []journal.Entry
	if err := runs.Events(ctx, name, false, func(e journal.Entry) { entries = append(entries, e) }, func() {}); err != nil {
		return err
	}
	rows, err := ProgramsOf(name, entries, args[min(1, len(args)):])
	if err != nil {
		return err
	}
	if to == "" {
		return programTable(rows).Write(out, format)
	}
	some := false
	for _, r := range rows {
		if r.Manifest == "" {
			continue
		}
		some = true
		folder := filepath.Join(to, r.Program)
		if err := runs.State(ctx, name, target.Saved{Program: r.Program, Manifest: r.Manifest, Digest: r.Digest}, folder); err != nil {
			return fmt.Errorf("copying the state of %s: %w", r.Program, err)
		}
		fmt.Fprintf(cli.OnTheWay(out, format), "%s: %d bytes of step %d in %s\n", r.Program, r.Bytes, r.Saved, folder)
	}
	if !some {
		return errors.New("no state is saved yet")
	}
	return nil
}

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
	Manifest string   `json:"manifest,omitempty"` // of that
	Digest   string   `json:"digest,omitempty"`
	Why      string   `json:"why,omitempty"`
}

// ProgramsOf finds the programs of a run in its journal, in the order of their names.
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
		return nil, cli.Usage(fmt.Errorf("%s trains an application: it has no programs; `tierml top` shows how far it is", run))
	}
	var rows []*ProgramRow
	for _, row := range byName {
		if len(wanted) == 0 || slices.Contains(wanted, row.Program) {
			rows = append(rows, row)
		}
	}
	for _, name := range wanted {
		if byName[name] == nil {
			return nil, cli.Usage(fmt.Errorf("%s has no program %s; `tierml state %[1]s` lists them", run, name))
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

func programTable(rows []*ProgramRow) table.Table {
	t := table.Table{Data: rows, Columns: []table.Column{
		{Name: "program", Title: "PROGRAM"}, {Name: "status", Title: "STATUS"}, {Name: "machine", Title: "MACHINE"}, {Name: "attempts", Title: "ATTEMPTS"},
		{Name: "step", Title: "STEP"}, {Name: "loss", Title: "LOSS"}, {Name: "exit_code", Title: "EXIT"}, {Name: "state_bytes", Title: "STATE"},
		{Name: "manifest", Title: "MANIFEST", Wide: true}, {Name: "why", Title: "WHY", Wide: true},
	}}
	for _, r := range rows {
		t.Rows = append(t.Rows, []table.Cell{table.Of(r.Program), table.Of(r.Status), table.Of(cli.OrMinus(r.Machine)), table.Of(r.Attempts), table.Of(r.Step),
			cli.FigureCell(r.Loss), table.Of(r.Code), table.Of(r.Bytes), table.Of(cli.OrMinus(r.Manifest)), table.Of(cli.OrMinus(r.Why))})
	}
	return t
}
