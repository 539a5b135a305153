package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/target"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/page"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager/call"
)

func NewReportCommand() *cobra.Command {
	var format, htmlFile string
	var bills []string
	var at target.Flags
	cmd := &cobra.Command{
		Use:   "report [RUN...]",
		Short: "Report what a run cost, what it would have cost on demand, and where the difference went",
		Long: `It also works for runs that are still running or were killed. Several runs are shown side by side. -o csv has a row per machine, -o
html is a web page.
` + cli.WhichRun + `
RUN may also be the path of a journal.`,
		Example: `  tierml report
  tierml report demo-1
  tierml report demo-1 demo-2
  tierml report demo-1 -o csv
  tierml report ratings-1 --reconcile cost-and-usage.csv.gz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := at.Client(cmd, args)
			if err != nil {
				return err
			}
			var report *cost.Report
			if client != nil {
				defer client.Close()
				if report, err = reportFrom(cmd.Context(), client, args); err != nil {
					return err
				}
				return writeReport(cmd.OutOrStdout(), report, bills, format, htmlFile)
			}
			args, err = findJournals(args)
			if err != nil {
				return err
			}
			if len(args) > 1 {
				if len(bills) > 0 {
					return cli.Usage(errors.New("--reconcile compares one run with the provider's records: name one"))
				}
				return compareRuns(cmd.Context(), cmd.OutOrStdout(), args, format, htmlFile)
			}
			if report, err = target.MakeReport(cmd.Context(), args[0]); err != nil {
				return err
			}
			if err := writeReport(cmd.OutOrStdout(), report, bills, format, htmlFile); err != nil {
				return err
			}
			if cli.ForPeople(format) && htmlFile == "" {
				cli.Next(cmd, cli.Step{Command: "tierml report " + args[0] + " --html report.html", Why: "the same as a page with charts"},
					cli.Step{Command: "tierml dashboard", Why: "all runs in a browser"})
			}
			return nil
		},
	}
	cli.OutputFlag(cmd, &format, cli.FormatHTML)
	cmd.Flags().StringSliceVar(&bills, "reconcile", nil, "compare with the provider's own records in these `files`, hour by hour: AWS cost and usage\n"+
		"report or Spot data feed, GCP detailed billing export; CSV or JSON, may be gzipped; not with -o html")
	cmd.Flags().StringVar(&htmlFile, "html", "", "also write the web page to this `file`")
	at.Flags(cmd)
	return cmd
}

// findJournals returns the paths of the journals, or of the run directories, that the arguments mean.
func findJournals(args []string) ([]string, error) {
	if len(args) == 0 {
		args = []string{""}
	}
	paths := make([]string, len(args))
	for i, arg := range args {
		paths[i] = arg
		if info, err := os.Stat(arg); arg != "" && filepath.Base(arg) != arg || err == nil && info.Mode().IsRegular() { // a journal, or a run's directory
			continue
		}
		dir, err := target.FindRun([]string{arg})
		if err != nil {
			return nil, err
		}
		paths[i] = cli.Relative(dir)
	}
	return paths, nil
}

// reportFrom makes the report of a job server's job; without a name, of the newest.
func reportFrom(ctx context.Context, client *call.Client, args []string) (*cost.Report, error) {
	if len(args) > 1 {
		return nil, cli.Usage(errors.New("several runs are compared here: get them with `tierml fetch RUN` and add --server none"))
	}
	return target.RemoteReport(ctx, client, target.MeantJob(args))
}

// writeReport prints a report, or how it differs from the provider's records in bills, and writes its page.
func writeReport(out io.Writer, report *cost.Report, bills []string, format, htmlFile string) error {
	if len(bills) > 0 {
		return reconcileWith(report, bills, format, out)
	}
	write, err := reportWriter(format)
	if err != nil {
		return err
	}
	if htmlFile != "" {
		if err := WriteReportFile(htmlFile, report, page.Write); err != nil {
			return err
		}
	}
	return write(out, report)
}

// compareRuns prints the figures of several runs.
func compareRuns(ctx context.Context, out io.Writer, paths []string, format, htmlFile string) error {
	if htmlFile != "" || format == cli.FormatHTML || format == table.CSV {
		return cli.Usage(errors.New("several runs are compared as a table or json: write -o table or -o json, without --html"))
	}
	var named []cost.Named
	for _, path := range paths {
		report, err := target.MakeReport(ctx, path)
		if err != nil {
			return err
		}
		if filepath.Base(path) == "journal.jsonl" {
			path = filepath.Dir(path)
		}
		named = append(named, cost.Named{Name: filepath.Base(filepath.Clean(path)), Report: report})
	}
	if cli.ForPeople(format) {
		return cost.WriteComparison(out, table.Width(out), named)
	}
	return cli.WriteJSON(out, named)
}

// reportWriter returns the form of a report by its name.
func reportWriter(format string) (func(io.Writer, *cost.Report) error, error) {
	switch format {
	case table.Plain, table.Text, table.Wide:
		return func(w io.Writer, r *cost.Report) error { return r.WriteText(w, table.Width(w)) }, nil
	case table.CSV:
		return func(w io.Writer, r *cost.Report) error { return machinesTable(r).Write(w, table.CSV) }, nil
	case "json":
		return func(w io.Writer, r *cost.Report) error { return cli.WriteJSON(w, r) }, nil
	case "html":
		return page.Write, nil
	}
	return nil, cli.Usage(fmt.Errorf("output format %q does not exist; write -o table, -o wide, -o csv, -o json or -o html", format))
}

// machinesTable lists the machines of a run with what they cost.
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
