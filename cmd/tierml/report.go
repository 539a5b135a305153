package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/page"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/plainfile"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner/local"
)

func newReportCommand() *cobra.Command {
	var format, htmlFile string
	var bills []string
	var at remote
	cmd := &cobra.Command{
		Use:   "report [RUN...]",
		Short: "Report what a run cost, what it would have cost on demand, and where the difference went",
		Long: `It also works for runs that are still running or were killed. Several runs are shown side by side. -o csv has a row per machine, -o
html is a web page.
` + whichRun + `
RUN may also be the path of a journal.`,
		Example: `  tierml report
  tierml report demo-1
  tierml report demo-1 demo-2
  tierml report demo-1 -o csv
  tierml report ratings-1 --reconcile cost-and-usage.csv.gz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := at.client(cmd, args)
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
					return usageError{errors.New("--reconcile compares one run with the provider's records: name one")}
				}
				return compareRuns(cmd.Context(), cmd.OutOrStdout(), args, format, htmlFile)
			}
			if report, err = makeReport(cmd.Context(), args[0]); err != nil {
				return err
			}
			if err := writeReport(cmd.OutOrStdout(), report, bills, format, htmlFile); err != nil {
				return err
			}
			if forPeople(format) && htmlFile == "" {
				cli.Next(cmd, cli.Step{Command: "tierml report " + args[0] + " --html report.html", Why: "the same as a page with charts"},
					cli.Step{Command: "tierml dashboard", Why: "all runs in a browser"})
			}
			return nil
		},
	}
	outputFlag(cmd, &format, formatHTML)
	cmd.Flags().StringSliceVar(&bills, "reconcile", nil, "compare with the provider's own records in these `files`, hour by hour: AWS cost and usage\n"+
		"report or Spot data feed, GCP detailed billing export; CSV or JSON, may be gzipped; not with -o html")
	cmd.Flags().StringVar(&htmlFile, "html", "", "also write the web page to this `file`")
	at.flags(cmd)
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
		dir, err := findRun([]string{arg})
		if err != nil {
			return nil, err
		}
		paths[i] = relative(dir)
	}
	return paths, nil
}

// reportFrom makes the report of a job server's job; without a name, of the newest.
func reportFrom(ctx context.Context, client *call.Client, args []string) (*cost.Report, error) {
	if len(args) > 1 {
		return nil, usageError{errors.New("several runs are compared here: get them with `tierml fetch RUN` and add --server none")}
	}
	return remoteReport(ctx, client, meantJob(args))
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
		if err := writeReportFile(htmlFile, report, page.Write); err != nil {
			return err
		}
	}
	return write(out, report)
}

// compareRuns prints the figures of several runs.
func compareRuns(ctx context.Context, out io.Writer, paths []string, format, htmlFile string) error {
	if htmlFile != "" || format == formatHTML || format == table.CSV {
		return usageError{errors.New("several runs are compared as a table or json: write -o table or -o json, without --html")}
	}
	var named []cost.Named
	for _, path := range paths {
		report, err := makeReport(ctx, path)
		if err != nil {
			return err
		}
		if filepath.Base(path) == "journal.jsonl" {
			path = filepath.Dir(path)
		}
		named = append(named, cost.Named{Name: filepath.Base(filepath.Clean(path)), Report: report})
	}
	if forPeople(format) {
		return cost.WriteComparison(out, table.Width(out), named)
	}
	return writeJSON(out, named)
}

// reportWriter returns the form of a report by its name.
func reportWriter(format string) (func(io.Writer, *cost.Report) error, error) {
	switch format {
	case table.Plain, table.Text, table.Wide:
		return func(w io.Writer, r *cost.Report) error { return r.WriteText(w, table.Width(w)) }, nil
	case table.CSV:
		return func(w io.Writer, r *cost.Report) error { return machinesTable(r).Write(w, table.CSV) }, nil
	case "json":
		return func(w io.Writer, r *cost.Report) error { return writeJSON(w, r) }, nil
	case "html":
		return page.Write, nil
	}
	return nil, usageError{fmt.Errorf("output format %q does not exist; write -o table, -o wide, -o csv, -o json or -o html", format)}
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

// writeJSON prints a value as commands do with -o json.
func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

func writeReportFile(path string, r *cost.Report, write func(io.Writer, *cost.Report) error) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return errors.Join(write(file, r), file.Close())
}

// makeReport makes the report of a run from its journal and, for a run on the fake cloud, the cloud's records
// beside it. Path is the journal or the run's directory.
func makeReport(ctx context.Context, path string) (*cost.Report, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if err := runs.NoJournal(path); err != nil {
			return nil, usageError{err}
		}
		path = filepath.Join(path, "journal.jsonl")
	}
	entries, torn, err := readJournal(ctx, path)
	if err != nil {
		return nil, err
	}
	var ledger cost.Ledger
	for i, e := range entries {
		if err := ledger.Add(e); err != nil {
			return nil, fmt.Errorf("%s: entry %d: %w", path, i+1, err)
		}
	}
	report, err := reconcile(&ledger, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if torn != nil {
		report.Warnings = append(report.Warnings, torn.String())
	}
	return report, nil
}

// readJournal is journal.ReadFile with a bar.
func readJournal(ctx context.Context, path string) (entries []journal.Entry, torn *journal.Torn, err error) {
	file, err := plainfile.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the journal: %w", err)
	}
	defer file.Close()
	bar := progress.Start(ctx, "Reading "+relative(path), sizeOf(path), progress.Bytes)
	defer bar.Done()
	reader := journal.NewReader(bar.Reader(file))
	for e, err := range reader.All() {
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		entries = append(entries, e)
	}
	return entries, reader.Torn(), nil
}

// reconcile makes the report and compares it with the bill of the cloud whose records are in the directory, if
// there are any. Both bills are as of the same time: all that the two know.
func reconcile(ledger *cost.Ledger, dir string) (*cost.Report, error) {
	records, err := readRecords(filepath.Join(dir, "cloud.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return ledger.Report(time.Time{})
	}
	histories, recorded := recordedPrices(dir)
	var supplement *cost.Supplement
	if !ledger.Finished() {
		for pool, h := range billPrices(ledger, histories, records) {
			ledger.SupplementPrices(pool, h.Points(time.Time{}, lastTime(records)))
		}
		s := ledger.Supplement(facts(records))
		supplement = &s
	}
	asOf := ledger.AsOf()
	if last := lastTime(records); last.After(asOf) {
		asOf = last
	}
	report, err := ledger.Report(asOf)
	if err != nil {
		return nil, err
	}
	report.Supplement = supplement
	bill, err := fakecloud.NewBillAsOf(records, ledger.Rules(), billPrices(ledger, histories, records), asOf)
	if err != nil {
		return nil, err
	}
	compared := cost.Compare(report, billLines(bill))
	report.Reconciliation = &compared
	if !recorded {
		report.Warnings = append(report.Warnings,
			"the cloud's bill uses the prices of the journal: the job's own price history could not be read again")
	}
	return report, nil
}

// readRecords returns nothing when there are no records.
func readRecords(path string) ([]fakecloud.Record, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the cloud's records: %w", err)
	}
	defer file.Close()
	return fakecloud.ReadRecords(file)
}

// recordedPrices reads the price history that the run's job names, so that the cloud's bill does not rest on
// what the journal says about prices. It is false when the job or its files are not there any more.
func recordedPrices(dir string) (map[market.Pool]*market.History, bool) {
	job, err := config.Load(filepath.Join(dir, "job.yaml"))
	if err != nil {
		return nil, false
	}
	recorded, err := local.Load(job)
	if err != nil {
		return nil, false
	}
	histories := map[market.Pool]*market.History{}
	offers, _ := recorded.Offers()
	for _, o := range offers {
		histories[o.Pool] = o.History
	}
	return histories, true
}

// billPrices completes recorded prices with what the journal knows: on-demand prices, and every price when
// there is no recording.
func billPrices(ledger *cost.Ledger, recorded map[market.Pool]*market.History, records []fakecloud.Record) map[market.Pool]*market.History {
	prices := map[market.Pool]*market.History{}
	for _, r := range records {
		if r.Kind != fakecloud.Launched {
			continue
		}
		if h, ok := recorded[r.Pool]; ok {
			prices[r.Pool] = h
			continue
		}
		prices[r.Pool] = ledger.History(r.Pool)
	}
	return prices
}

// facts are the machines of the cloud's records.
func facts(records []fakecloud.Record) []cost.Fact {
	var out []cost.Fact
	index := map[string]int{}
	for _, r := range records {
		switch r.Kind {
		case fakecloud.Launched:
			index[r.ID] = len(out)
			out = append(out, cost.Fact{Instance: r.ID, Usage: market.Usage{Pool: r.Pool, Bid: r.Bid, Start: r.Launched}})
		case fakecloud.Ended:
			if i, ok := index[r.ID]; ok {
				out[i].Usage.End, out[i].Usage.EndedBy, out[i].Why = r.Ended, r.By, r.Reason
			}
		}
	}
	return out
}

func lastTime(records []fakecloud.Record) (last time.Time) {
	for _, r := range records {
		if r.T.After(last) {
			last = r.T
		}
	}
	return last
}

func billLines(bill fakecloud.Bill) []cost.BillLine {
	var lines []cost.BillLine
	for _, m := range bill.Lines {
		if len(m.Charges) == 0 { // it owes nothing, but it was there
			lines = append(lines, cost.BillLine{Instance: m.ID, From: m.Launched, To: m.Launched})
		}
		for _, c := range m.Charges {
			lines = append(lines, cost.BillLine{Instance: m.ID, From: c.From, To: c.To, USD: c.Amount})
		}
	}
	return lines
}
