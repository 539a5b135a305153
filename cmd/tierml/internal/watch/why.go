package watch

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager/call"
)

func NewWhyCommand() *cobra.Command {
	var format string
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "why JOB",
		Short: "Explain how many machines a scheduler grants a job, and what other schedulers would grant it",
		Long: `It prints the last decision of the job server's --scheduler about the job, with the reason and what the other jobs got; or the
budget or quota of its group that keeps it waiting. See docs/scheduler.md.`,
		Example: `  tierml why --server http://localhost:7071 demo
  tierml why demo -o json`,
		Args: cli.Arguments(1, 1, "name one job: its run, such as demo-1, or its name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
				found, err := runs.Why(ctx, target.First(args))
				if err != nil {
					return err
				}
				if format == table.JSON {
					return table.WriteJSON(cmd.OutOrStdout(), found)
				}
				return showWhy(cmd.OutOrStdout(), found, format)
			})
		},
	}
	cli.OutputFlag(cmd, &format)
	at.Flags(cmd)
	return cmd
}

// showWhy prints an explanation for display, or as CSV the decision about all jobs.
func showWhy(out io.Writer, w call.Why, format string) error {
	t := table.Table{Columns: []table.Column{{Title: "JOB"}, {Title: "ACTION"}, {Title: "WORKERS"}, {Title: "WHY"}}}
	for _, g := range w.Jobs {
		t.Rows = append(t.Rows, []table.Cell{table.Of(g.Job), table.Of(string(g.Action)), table.Of(g.Workers), table.Of(g.Why)})
	}
	if format == table.CSV {
		return t.Write(out, format)
	}
	if w.Policy == "" {
		_, err := fmt.Fprintf(out, "%s is not started: %s\n", w.Job, w.Grant.Why)
		return err
	}
	fmt.Fprintf(out, "%s: %s, %d workers after %d (requested: %s; slots now: %d)\n", w.Job, w.Action, w.Workers, w.Was, rangeOf(w.Least, w.Most), w.Held)
	fmt.Fprintf(out, "  %s\n", w.Grant.Why)
	if w.Refused != "" {
		fmt.Fprintf(out, "  not carried out yet: %s\n", w.Refused)
	}
	fmt.Fprintf(out, "Decided by %s at %s", w.Policy, w.At.UTC().Format("2006-01-02 15:04:05"))
	if w.Plan != "" {
		fmt.Fprintf(out, ": %s", w.Plan)
	}
	fmt.Fprint(out, "\n\n")
	if err := t.Write(out, format); err != nil {
		return err
	}
	var others []string
	for _, name := range slices.Sorted(maps.Keys(w.Else)) {
		others = append(others, fmt.Sprintf("%s %d", name, w.Else[name]))
	}
	_, err := fmt.Fprintf(out, "\nWorkers under other schedulers, if all jobs arrived now: %s\n", cmp.Or(strings.Join(others, ", "), "none, as the job is over"))
	return err
}

func rangeOf(least, most int) string {
	if least == most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d..%d", least, most)
}
