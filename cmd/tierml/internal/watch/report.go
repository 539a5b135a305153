package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/export"
	"github.com/tierml/tierml/cost/page"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/table"
)

func NewReportCommand() *cobra.Command {
	var o reportOptions
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "report [RUN...]",
		Short: "Report what a run cost, what it would have cost on demand, and where the difference went",
		Long: `It also works for runs that are still running or were killed. Several runs are shown side by side. -o csv has a row per machine, -o
html is a web page. -o tensorboard writes event files into a log directory, -o mlflow logs to a tracking server, by default the one in
MLFLOW_TRACKING_URI (docs/watching.md).
` + cli.WhichRun + `
RUN may also be the path of a journal.`,
		Example: `  tierml report
  tierml report demo-1
  tierml report demo-1 demo-2
  tierml report demo-1 -o csv
  tierml report demo-1 -o tensorboard --into logs
  tierml report ratings-1 --reconcile cost-and-usage.csv.gz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return at.With(cmd, args, func(ctx context.Context, runs target.Runs) error {
				if len(args) > 1 {
					return compareRuns(ctx, runs, args, o, cmd.OutOrStdout())
				}
				report, err := runs.Report(ctx, target.First(args))
				if err != nil {
					return err
				}
				if to := export.Of(o.format); to != nil {
					return exportRun(ctx, runs, target.First(args), report, to, o.into, cmd.OutOrStdout())
				}
				if err := writeReport(report, o, cmd.OutOrStdout()); err != nil {
					return err
				}
				if cli.ForPeople(o.format) && o.page == "" {
					cli.Next(cmd, cli.Step{Command: strings.TrimSpace("tierml report "+target.First(args)) + " --html report.html", Why: "the same as a page with charts"},
						cli.Step{Command: "tierml dashboard", Why: "all runs in a browser"})
				}
				return nil
			})
		},
	}
	cli.OutputFlag(cmd, &o.format, append(export.Names(), cli.FormatHTML)...)
	cmd.Flags().StringVar(&o.into, "into", "", "where -o tensorboard and -o mlflow write: a `directory` or URL")
	cmd.Flags().StringSliceVar(&o.bills, "reconcile", nil, "compare with the provider's own records in these `files` (docs/cost.md); not with -o html")
	cmd.Flags().StringVar(&o.page, "html", "", "also write the web page to this `file`")
	at.Flags(cmd)
	return cmd
}

type reportOptions struct {
	format string
	into   string   // for an exporter
	page   string   // file of the web page; empty = none
	bills  []string // files of the provider's own records
}

// exportRun passes a report to another tool.
func exportRun(ctx context.Context, runs target.Runs, run string, report *cost.Report, to export.Exporter, into string, out io.Writer) error {
	name, _, err := runs.Get(ctx, run)
	if err != nil { // a journal in another place
		name = filepath.Dir(filepath.Clean(run))
	}
	where, err := to.Export(ctx, export.New(filepath.Base(name), report), into)
	if err != nil {
		return fmt.Errorf("exporting the run: %w", err)
	}
	_, err = fmt.Fprintln(out, where)
	return err
}

// writeReport prints a report, or its differences from the provider's records, and writes its page.
func writeReport(report *cost.Report, o reportOptions, out io.Writer) error {
	if len(o.bills) > 0 {
		return reconcileWith(report, o.bills, o.format, out)
	}
	write, err := reportWriter(o.format)
	if err != nil {
		return err
	}
	if o.page != "" {
		if err := WriteReportFile(o.page, report, page.Write); err != nil {
			return err
		}
	}
	return write(out, report)
}

// compareRuns prints the figures of several runs.
func compareRuns(ctx context.Context, runs target.Runs, args []string, o reportOptions, out io.Writer) error {
	if len(o.bills) > 0 {
		return cli.Usage(errors.New("--reconcile compares one run with the provider's records: name one"))
	}
	if o.page != "" || o.format == cli.FormatHTML || export.Of(o.format) != nil || o.format == table.CSV {
		return cli.Usage(errors.New("several runs are compared as a table or json: write -o table or -o json, without --html"))
	}
	var named []cost.Named
	for _, run := range args {
		report, err := runs.Report(ctx, run)
		if err != nil {
			return err
		}
		named = append(named, cost.Named{Name: filepath.Base(strings.TrimSuffix(filepath.Clean(run), "/"+rundir.JournalFile)), Report: report})
	}
	if cli.ForPeople(o.format) {
		return cost.WriteComparison(out, table.Width(out), named)
	}
	return table.WriteJSON(out, named)
}

// reportWriter returns the function that writes a report in a format.
func reportWriter(format string) (func(io.Writer, *cost.Report) error, error) {
	switch format {
	case table.Plain, table.Text, table.Wide:
		return func(w io.Writer, r *cost.Report) error { return r.WriteText(w, table.Width(w)) }, nil
	case table.CSV:
		return func(w io.Writer, r *cost.Report) error { return machinesTable(r).Write(w, table.CSV) }, nil
	case "json":
		return func(w io.Writer, r *cost.Report) error { return table.WriteJSON(w, r) }, nil
	case "html":
		return page.Write, nil
	}
	return nil, cli.Usage(fmt.Errorf("output format %q does not exist; write -o table, -o wide, -o csv, -o json or -o html", format))
}

// machinesTable lists the machines of a run with their costs.
func machinesTable(r *cost.Report) table.Table {
	t := table.Table{Columns: []table.Column{
		{Name: "instance"}, {Name: "tier"}, {Name: "pool"}, {Name: "bid_usd_per_hour"}, {Name: "launched"}, {Name: "ended"},
		{Name: "fate"}, {Name: "hours"}, {Name: "usd"}, {Name: "why"},
	}}
	for _, i := range r.Instances {
		ended := ""
		if i.Ended != nil {
			ended = i.Ended.UTC().Format(time.RFC3339)
		}
		t.Rows = append(t.Rows, []table.Cell{table.Of(i.ID), table.Of(i.Tier), table.Of(i.Pool), table.Of(i.Bid),
			table.Of(i.Launched.UTC().Format(time.RFC3339)), table.Of(ended), table.Of(i.Fate), table.Of(i.Hours), table.Of(i.USD), table.Of(i.Why)})
	}
	return t
}

func WriteReportFile(path string, r *cost.Report, write func(io.Writer, *cost.Report) error) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return errors.Join(write(file, r), file.Close())
}
