package main

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/trace"
	"github.com/tierml/tierml/planner/local"
)

// dryRunOf runs the demo's job with more arguments.
func dryRunOf(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = tierml(append([]string{"dry-run", "../../examples/demo.yaml", "--no-oracle", "--policy", "tierml"}, args...), nil, &o, &e)
	return code, o.String(), e.String()
}

// Errors in what a flag names are reported against the flag, not the job file.
func TestDryRunBlamesTheFlag(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(bad, []byte("hello,world\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--prices", bad}, "--prices: " + bad + ": price history: line 1"},
		{[]string{"--prices", filepath.Join(t.TempDir(), "none.csv")}, "--prices: "},
		{[]string{"--catalog", bad}, "--catalog: " + bad},
		{[]string{"--types", "c9.huge"}, "--types: c9.huge has no prices"},
		{[]string{"--reliable", "c9.huge:1"}, "--reliable: c9.huge is not in the catalog"},
	} {
		code, _, errOut := dryRunOf(t, c.args...)
		if code != cli.ExitUsage || !strings.Contains(errOut, c.want) || strings.Contains(errOut, "demo.yaml") {
			t.Errorf("%v: exit code %d: %s", c.args, code, errOut)
		}
	}
	market := writePrices(t, "us-west-1b", "c3.xlarge", "0.02")
	if code, _, errOut := dryRunOf(t, "--prices", market); code != cli.ExitUsage || !strings.Contains(errOut, "--prices "+market) || !strings.Contains(errOut, "--zones") {
		t.Errorf("a market in which the job finds nothing: exit code %d: %s", code, errOut)
	}
}

// writePrices writes a price history of one pool: three weeks with one price a day.
func writePrices(t *testing.T, zone, kind, price string) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("timestamp,zone,instance_type,product,price\n")
	for day := 1; day <= 21; day++ {
		text.WriteString("2014-03-" + string([]byte{byte('0' + day/10), byte('0' + day%10)}) + "T00:00:00Z," + zone + "," + kind + ",Linux/UNIX," + price + "\n")
	}
	path := filepath.Join(t.TempDir(), "prices.csv")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// --reliable TYPE:0 leaves the job without reliable machines, even if it does not say how often to save.
func TestDryRunWithoutReliable(t *testing.T) {
	code, out, errOut := dryRunOf(t, "--reliable", "c3.xlarge:0", "--hours", "1", "--starts", "2")
	if code != cli.ExitDone || !regexp.MustCompile(`(?m)^ +tierml +2 +2 +100%`).MatchString(out) {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
	if code, _, _ := dryRunOf(t, "--reliable", "c3.xlarge:-1"); code != cli.ExitUsage {
		t.Errorf("--reliable c3.xlarge:-1: exit code %d", code)
	}
}

// holed writes the examples' prices with some weeks missing, one contradictory row and one absurd row.
func holed(t *testing.T, from, to time.Time) string {
	t.Helper()
	whole, err := local.ReadPrices("../../examples/data/aws-us-west-1a-c3-2014.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	points := map[market.Pool][]market.PricePoint{}
	for _, m := range whole.Markets {
		last, _ := m.History.Last()
		for _, p := range m.History.Points(time.Time{}, last.At) {
			if !p.At.After(from) || !p.At.Before(to) {
				points[m.Pool] = append(points[m.Pool], p)
			}
		}
	}
	var text bytes.Buffer
	if err := trace.Write(&text, trace.LinuxUNIX, trace.Of(points)); err != nil {
		t.Fatal(err)
	}
	first := strings.SplitN(text.String(), "\n", 3)[1] // "2014-02-16T05:33:25Z,us-west-1a,c3.xlarge,Linux/UNIX,0.0282"
	fields := strings.Split(first, ",")
	text.WriteString(strings.Join(append(slices.Clone(fields[:4]), "0.2"), ",") + "\n" + strings.Join(append(slices.Clone(fields[:4]), "20000"), ",") + "\n")
	path := filepath.Join(t.TempDir(), "holed.csv")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The reader reports why prices are doubtful, and no start falls in a gap in the recording.
func TestDoubtfulPrices(t *testing.T) {
	from, to := time.Date(2014, 3, 10, 0, 0, 0, 0, time.UTC), time.Date(2014, 3, 26, 0, 0, 0, 0, time.UTC)
	file := holed(t, from, to)
	doubts := []string{"1 price contradicts another price", "1 price is absurd and left out", "prices were not recorded for some time", "holed.csv line "}
	code, out, errOut := dryRunOf(t, "--prices", file, "--types", "c3.xlarge,c3.2xlarge,c3.4xlarge", "--hours", "2", "--starts", "60", "-o", "csv")
	if code != cli.ExitDone {
		t.Fatal(code, errOut)
	}
	for _, want := range append(doubts, "of the starting minutes do not count") {
		if !strings.Contains(errOut, want) {
			t.Errorf("dry-run does not say %q: %s", want, errOut)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 61 {
		t.Fatal(len(rows), err)
	}
	for _, row := range rows[1:] {
		if at, err := time.Parse(time.RFC3339, row[3]); err != nil || at.After(from) && at.Before(to) {
			t.Errorf("a start at %s (%v)", row[3], err)
		}
	}
	text, err := os.ReadFile("../../examples/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	job := strings.ReplaceAll(string(text), "data/aws-us-west-1a-c3-2014.csv.gz", file)
	job = strings.ReplaceAll(job, " data/", " "+here+"/data/")
	job = strings.Replace(job, "any_of:", "any_of:\n    - {type: c3.2xlarge}", 1)
	path := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(path, []byte(job), 0o600); err != nil {
		t.Fatal(err)
	}
	var plan, complaints bytes.Buffer
	if code := tierml([]string{"plan", path}, nil, &plan, &complaints); code != cli.ExitDone {
		t.Fatal(code, complaints.String())
	}
	for _, want := range doubts {
		if !strings.Contains(strings.Join(strings.Fields(plan.String()), " "), want) {
			t.Errorf("plan does not say %q: %s", want, &plan)
		}
	}
}
