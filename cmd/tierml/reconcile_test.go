package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/jobrun/bill"
)

// A provider's record with the same hours agrees; otherwise the difference is shown hour by hour.
func TestReconcile(t *testing.T) {
	story := journaltest.New(1)
	dir := writeRun(t, story, len(story.Entries), story.Entries[len(story.Entries)-1].T)
	report, err := bill.Make(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	record := "lineItem/ResourceId,lineItem/UsageStartDate,lineItem/UsageEndDate,lineItem/UnblendedCost\n" +
		"i-of-others,2014-05-01T13:00:00Z,2014-05-01T14:00:00Z,3\n"
	for _, i := range report.Instances {
		for _, c := range i.Charges {
			record += fmt.Sprintf("%s,%s,%s,%s\n", i.ID, c.From.Format(time.RFC3339), c.To.Format(time.RFC3339), c.USD)
		}
	}
	bill := filepath.Join(t.TempDir(), "bill.csv")
	ask := func(text string, args ...string) (string, int) {
		if err := os.WriteFile(bill, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		code := tierml(append([]string{"report", filepath.Join(dir, "journal.jsonl"), "--reconcile", bill}, args...), nil, &out, &out)
		return out.String(), code
	}
	first := report.Instances[0]
	if said, code := ask(record); code != cli.ExitDone || !strings.Contains(said, "1 others of the account") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	said, code := ask(record + fmt.Sprintf("%s,2014-05-09T01:00:00Z,2014-05-09T02:00:00Z,0.5\n", first.ID))
	if code != cli.ExitDone || !strings.Contains(said, "2014-05-09 01:00") || !strings.Contains(said, first.ID) {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	metered := strings.Replace(strings.ReplaceAll(record, "\n", ",BoxUsage:m5.large\n"), ",BoxUsage:m5.large\n", ",lineItem/UsageType\n", 1)
	metered += first.ID + ",2014-05-09T01:00:00Z,2014-05-09T02:00:00Z,0.5,USW1-DataTransfer-Regional-Bytes\n"
	if said, code := ask(metered); code != cli.ExitDone || !strings.Contains(said, "$0.5000 metered, $0.0000 estimated") || strings.Contains(said, "2014-05-09") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	if said, code := ask(record, "-o", "csv"); code != cli.ExitDone || !strings.HasPrefix(said, "hour,machine,ours_usd,theirs_usd,difference_usd\n") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	if said, code := ask("a,b\n"); code != cli.ExitUsage || !strings.Contains(said, "no form that is known") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}
