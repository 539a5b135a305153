package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/internal/dashboard"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/localrun"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/market"
)

func newPsCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the runs of this directory: how far they are, on what, for how much",
		Long: `Ps lists the runs below ./runs, those that go on and those that have ended. What it says comes from their journals,
so it needs no server and works from any terminal.`,
		Example: `  tierml ps
  tierml ps -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, err := psWriter(format)
			if err != nil {
				return err
			}
			dirs, err := runs.List(localrun.Root)
			if err != nil {
				return err
			}
			rows := []dashboard.Summary{}
			for _, dir := range dirs {
				row, err := dashboard.Read(cmd.Context(), dir)
				if err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "tierml: %s is left out: %v\n", relative(dir), err)
					continue
				}
				rows = append(rows, row)
			}
			return write(cmd.OutOrStdout(), rows)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "text", "output format: text or json")
	return cmd
}

func psWriter(format string) (func(io.Writer, []dashboard.Summary) error, error) {
	switch format {
	case "text":
		return writePs, nil
	case "json":
		return func(w io.Writer, rows []dashboard.Summary) error {
			encoder := json.NewEncoder(w)
			encoder.SetIndent("", "  ")
			return encoder.Encode(rows)
		}, nil
	}
	return nil, usageError{fmt.Errorf("output format %q does not exist; write -o text or -o json", format)}
}

func writePs(w io.Writer, rows []dashboard.Summary) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintf(w, "No runs in %s yet; start one with `tierml run JOB.yaml`.\n", filepath.Join(".", localrun.Root))
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RUN\tSTATE\tCLOCK\tTEST\tSTAGE\tMACHINES\t$/HOUR\tSPENT\tSAVED\tMARKET TIME")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Run, r.State, ofAll(r.Clock, r.Clocks), orDash(r.Test),
			orMinus(r.Stage), machinesText(r), orMinus(cents(r.PerHour)), orMinus(cents(r.Spent)), orMinus(cents(r.Saved)), words.Duration(r.Seconds))
	}
	return table.Flush()
}

func ofAll(clock, clocks int64) string {
	if clocks == 0 {
		return fmt.Sprint(clock)
	}
	return fmt.Sprintf("%d/%d", clock, clocks)
}

func orDash(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *v)
}

func machinesText(r dashboard.Summary) string {
	if r.Reliable+r.Transient == 0 {
		return "-"
	}
	return fmt.Sprintf("%d reliable, %d transient", r.Reliable, r.Transient)
}

func orMinus(text string) string { return cmp.Or(text, "-") }

// cents shortens a dollar figure for people; what is not known stays empty.
func cents(text string) string {
	v, err := market.ParseUSD(text)
	if err != nil {
		return ""
	}
	return v.Cents()
}
