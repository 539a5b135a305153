package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/watch/status"
)

func NewStateCommand() *cobra.Command {
	var to, format string
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "state [RUN [PROGRAM...]]",
		Short: "List the programs of a run, and copy their saved state",
		Long: `PROGRAM is a name such as rank-0 or task-17. --into also works while the run continues.
` + cli.WhichRun,
		Example: `  tierml state sweep-1
  tierml state sweep-1 task-3 --into results`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
				return showState(ctx, runs, args, to, format, cmd.OutOrStdout())
			})
		},
	}
	cmd.Flags().StringVar(&to, "into", "", "copy the newest states to this `folder`")
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
	rows, err := status.ProgramsOf(name, entries, args[min(1, len(args)):])
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

func programTable(rows []*status.ProgramRow) table.Table {
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
