package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/watch"
	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/jobrun/bill"
	"github.com/tierml/tierml/market"
)

// writeRun writes a run's directory: the first n entries of the story's journal, and the cloud's records until a time.
func writeRun(t *testing.T, story journaltest.Story, n int, until time.Time) string {
	t.Helper()
	dir := t.TempDir()
	w, err := journal.Create(filepath.Join(dir, "journal.jsonl"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range story.Entries[:n] {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var lines []byte
	add := func(r fakecloud.Record) {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	for _, m := range story.Machines {
		pool, err := market.ParsePool(m.Pool)
		if err != nil {
			t.Fatal(err)
		}
		var bid market.USD
		if m.Bid != "" {
			if bid, err = market.ParseUSD(m.Bid); err != nil {
				t.Fatal(err)
			}
		}
		if !m.Launched.After(until) {
			add(fakecloud.Record{T: m.Launched, Kind: fakecloud.Launched, ID: m.ID, Pool: pool, Bid: bid, Launched: m.Launched})
		}
		if !m.Ended.After(until) {
			add(fakecloud.Record{T: m.Ended, Kind: fakecloud.Ended, ID: m.ID, Ended: m.Ended, By: market.EndedBy(m.EndedBy), Reason: "the cloud's reason"})
		}
	}
	add(fakecloud.Record{T: until, Kind: fakecloud.Tick})
	if err := os.WriteFile(filepath.Join(dir, "cloud.jsonl"), lines, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReportOfAFinishedRun(t *testing.T) {
	story := journaltest.New(1)
	end := story.Entries[len(story.Entries)-1].T
	dir := writeRun(t, story, len(story.Entries), end)
	r, err := bill.Make(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if r.Reconciliation == nil || !r.Reconciliation.Equal || r.Supplement != nil || r.Totals.Total == 0 {
		t.Errorf("%+v, %+v", r.Reconciliation, r.Supplement)
	}
}

// After kill -9 the cloud knows of launches and ends that the journal missed. Wherever the journal was cut, both totals agree.
func TestReportOfAKilledRun(t *testing.T) {
	story := journaltest.New(2)
	missed := 0
	for n := 20; n < len(story.Entries)-1; n += 60 {
		until := story.Entries[min(n+30, len(story.Entries)-1)].T
		dir := writeRun(t, story, n, until)
		// The journal's last line is torn, and later prices are missing with it: supply them, as the job's price history would.
		path := filepath.Join(dir, "journal.jsonl")
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.WriteString(`{"t":"2014-05-`)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := bill.Make(t.Context(), path)
		if err != nil {
			t.Fatalf("%d entries: %v", n, err)
		}
		if r.Supplement == nil || !r.Reconciliation.Equal || !r.Run.AsOf.Equal(until) {
			t.Fatalf("%d entries: %+v, %s", n, r.Supplement, r.Reconciliation)
		}
		missed += r.Supplement.Launches + r.Supplement.Ends
		if !strings.Contains(strings.Join(r.Warnings, "\n"), "torn") {
			t.Errorf("%d entries: the torn line is not reported: %q", n, r.Warnings)
		}
	}
	if missed == 0 {
		t.Error("no journal was ever missing anything")
	}
}

func TestReportFormats(t *testing.T) {
	story := journaltest.New(1)
	dir := writeRun(t, story, len(story.Entries), story.Entries[len(story.Entries)-1].T)
	page := filepath.Join(dir, "report.html")
	run := func(args ...string) (string, error) {
		cmd := watch.NewReportCommand()
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(args)
		err := cmd.Execute()
		return out.String(), err
	}
	text, err := run(dir, "--html", page)
	if err != nil || !strings.Contains(text, "equals the cloud's own bill") {
		t.Errorf("%v:\n%s", err, text)
	}
	if html, err := os.ReadFile(page); err != nil || !strings.HasPrefix(string(html), "<!doctype html>") {
		t.Errorf("page: %v", err)
	}
	out, err := run(filepath.Join(dir, "journal.jsonl"), "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var r cost.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Totals.Total == 0 || r.Run.Name != "demo" {
		t.Errorf("%v: %+v", err, r.Totals)
	}
	if html, err := run(dir, "-o", "html"); err != nil || !strings.Contains(html, "</html>") {
		t.Errorf("html: %v", err)
	}
	if _, err := run(dir, "-o", "pdf"); cli.ExitCodeOf(err) != cli.ExitUsage {
		t.Errorf("-o pdf: %v", err)
	}
	if _, err := run(filepath.Join(dir, "nowhere.jsonl")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no journal: %v", err)
	}
}
