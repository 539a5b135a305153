// Package bill builds the report of a run from its folder: its journal and, for a run on the fake cloud, the cloud's own records, with
// which it compares the bill.
package bill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/exitcode"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/plainfile"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner/local"
)

// Make builds the report of a run from its journal and, for a run on the fake cloud, the cloud's records next to it. Path is the journal or
// the run's directory.
func Make(ctx context.Context, path string) (*cost.Report, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if err := runs.NoJournal(path); err != nil {
			return nil, exitcode.Wrong(err)
		}
		path = filepath.Join(path, "journal.jsonl")
	}
	entries, torn, err := ReadJournal(ctx, path)
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

// ReadJournal is journal.ReadFile with a progress bar.
func ReadJournal(ctx context.Context, path string) (entries []journal.Entry, torn *journal.Torn, err error) {
	file, err := plainfile.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the journal: %w", err)
	}
	defer file.Close()
	size := int64(0)
	if info, err := file.Stat(); err == nil {
		size = info.Size()
	}
	bar := progress.Start(ctx, "Reading "+path, size, progress.Bytes)
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

// reconcile builds the report and compares it with the bill of the cloud whose records are in the directory, if there are any. Both bills
// are as of the same time: everything that both know.
func reconcile(ledger *cost.Ledger, dir string) (*cost.Report, error) {
	records, err := ReadRecords(filepath.Join(dir, "cloud.jsonl"))
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
			ledger.SupplementPrices(pool, h.Points(time.Time{}, LastTime(records)))
		}
		s := ledger.Supplement(facts(records))
		supplement = &s
	}
	asOf := ledger.AsOf()
	if last := LastTime(records); last.After(asOf) {
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

// ReadRecords returns nothing if there are no records.
func ReadRecords(path string) ([]fakecloud.Record, error) {
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

// recordedPrices reads the price history that the run's job names, so that the cloud's bill does not depend on the journal's prices. It
// returns false if the job or its prices no longer exist; its other files need not exist.
func recordedPrices(dir string) (map[market.Pool]*market.History, bool) {
	text, err := os.ReadFile(filepath.Join(dir, rundir.JobFile))
	if err != nil {
		return nil, false
	}
	var named struct {
		Cloud, Provider string
		Local           struct{ Prices, Catalog string }
	}
	if err := yaml.Unmarshal(text, &named); err != nil || named.Cloud != config.CloudLocal {
		return nil, false
	}
	recorded, err := local.Load(&config.Job{Cloud: named.Cloud, Provider: named.Provider,
		Local: config.Local{Prices: named.Local.Prices, Catalog: named.Local.Catalog}})
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

// billPrices completes recorded prices with what the journal knows: on-demand prices, and every price if there is no recording.
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

func LastTime(records []fakecloud.Record) (last time.Time) {
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
		if len(m.Charges) == 0 { // it owes nothing, but it existed
			lines = append(lines, cost.BillLine{Instance: m.ID, From: m.Launched, To: m.Launched})
		}
		for _, c := range m.Charges {
			lines = append(lines, cost.BillLine{Instance: m.ID, From: c.From, To: c.To, USD: c.Amount})
		}
	}
	return lines
}
