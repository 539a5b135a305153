package watch

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/watch/dashboard"
)

func NewSweepCommand() *cobra.Command {
	var format string
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "sweep [SWEEP]",
		Short: "List the trials of a sweep with their settings, losses and cost, best first",
		Long: `SWEEP is the name of the sweep's first trial, or of a program's run. Default: the newest sweep; without a job server, the newest
run. See docs/scheduler.md.`,
		Example: `  tierml sweep --server http://localhost:7071
  tierml sweep sweep-1
  tierml sweep rates -o wide
  tierml sweep rates-1 -o json`,
		Args: cli.Arguments(0, 1, "name one sweep: its job, such as rates, or one of its trials, such as rates-1"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
				found, err := runs.Sweep(ctx, target.First(args))
				if err != nil {
					return err
				}
				if format == table.JSON {
					return table.WriteJSON(cmd.OutOrStdout(), found)
				}
				return showSweep(cmd.OutOrStdout(), found, format)
			})
		},
	}
	cli.OutputFlag(cmd, &format)
	at.Flags(cmd)
	return cmd
}

// showSweep lists a sweep's trials and, for display, its result.
func showSweep(out io.Writer, s dashboard.Sweep, format string) error {
	t := table.Table{Columns: []table.Column{{Name: "trial", Title: "TRIAL"}, {Name: "settings", Title: "SETTINGS"}, {Name: "state", Title: "STATE"}}}
	for _, clock := range s.Feedback {
		t.Columns = append(t.Columns, table.Column{Name: fmt.Sprintf("loss_%d", clock), Title: fmt.Sprintf("LOSS AT %d", clock)})
	}
	unit, loss, title := cmp.Or(s.Unit, "clock"), "test loss", "TEST"
	if s.Unit != "" { // a program reports one loss
		loss, title = "loss", "LOSS"
	}
	t.Columns = append(t.Columns, table.Column{Name: "test_loss", Title: title}, table.Column{Name: "clock", Title: strings.ToUpper(unit)}, table.Column{Name: "clocks"},
		table.Column{Name: "spent_usd", Title: "SPENT"}, table.Column{Name: "market_seconds", Title: "MARKET TIME"}, table.Column{Name: "why", Title: "WHY", Wide: true})
	for _, trial := range s.Trials {
		row := []table.Cell{table.Of(trial.Run), table.Of(trial.Settings()), table.Of(trial.State)}
		for i := range s.Feedback {
			row = append(row, table.Of(cli.OrMinus(trial.LossAt(i))))
		}
		t.Rows = append(t.Rows, append(row, cli.FigureCell(trial.Test), table.Cell{Text: cli.OfAll(trial.Clock, trial.Clocks), Value: trial.Clock}, table.Of(trial.Clocks),
			cli.Money(trial.Spent), table.Cell{Text: words.Duration(trial.Seconds), Value: trial.Seconds}, table.Of(cli.OrMinus(trial.Why))))
	}
	if err := t.Write(out, format); err != nil || format == table.CSV {
		return err
	}
	limit := func(text, of string) string {
		if of == "" {
			return text
		}
		return text + " of " + of
	}
	longest := ""
	if s.Longest > 0 {
		longest = words.Duration(s.Longest)
	}
	fmt.Fprintf(out, "\n%d trials: %s. %s spent in %s of market time.\n", s.Of, s.Counts(), limit(cmp.Or(cli.Cents(s.Spent), "Nothing"), cli.Cents(s.Budget)), limit(words.Duration(s.Seconds), longest))
	if s.Why != "" && s.Unit == "" {
		fmt.Fprintf(out, "All were stopped: %s\n", s.Why)
	}
	switch {
	case s.Best != "" && s.Unit != "":
		fmt.Fprintf(out, "The best is %s, with a loss of %s: %s. `tierml state %s %[1]s --into DIR` copies its state.\n", s.Best, cli.FigureCell(s.Trials[0].Test).Text, s.Trials[0].Settings(), s.ID)
	case s.Unit != "" && s.Leader == "":
		fmt.Fprintln(out, "Note: "+cost.NoLoss)
	case s.Best != "":
		fmt.Fprintf(out, "The best is %s; its model: %s\n", s.Best, cli.OrMinus(s.Model))
	case s.Leader != "":
		first := s.Trials[0]
		fmt.Fprintf(out, "No trial has finished. The best so far is %s, with a %s of %s at %s %s: %s\n", s.Leader, loss,
			cli.FigureCell(first.Test).Text, unit, cli.OfAll(first.Clock, first.Clocks), first.Settings())
	}
	return nil
}
