package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/test/reckon"
	"github.com/tierml/tierml/watch/status"
)

var (
	tags  = regexp.MustCompile(`<[^>]*>`)
	cards = regexp.MustCompile(`(?s)<dt>(.*?)</dt>(.*?)</div>`)
	table = regexp.MustCompile(`(?s)role="region" aria-label="([^"]*)">\s*<table[^>]*>.*?<tbody>(.*?)</tbody>`)
	row   = regexp.MustCompile(`(?s)<tr[^>]*>(.*?)</tr>`)
	cell  = regexp.MustCompile(`(?s)<t[hd][^>]*>(.*?)</t[hd]>`)
)

func plain(markup string) string {
	return strings.TrimSpace(html.UnescapeString(tags.ReplaceAllString(markup, " ")))
}

// readPage parses a page as it is sent.
func readPage(text string) *reckon.Page {
	p := &reckon.Page{Cards: map[string]string{}, Tables: map[string][][]string{}}
	for _, m := range cards.FindAllStringSubmatch(text, -1) {
		p.Cards[plain(m[1])] = plain(m[2])
	}
	for _, m := range table.FindAllStringSubmatch(text, -1) {
		var rows [][]string
		for _, r := range row.FindAllStringSubmatch(m[2], -1) {
			var cells []string
			for _, c := range cell.FindAllStringSubmatch(r[1], -1) {
				cells = append(cells, plain(c[1]))
			}
			rows = append(rows, cells)
		}
		p.Tables[html.UnescapeString(m[1])] = rows
	}
	return p
}

// At every stage of a run, and at its end, each figure of its page, its JSON and its metrics is the one that independent arithmetic
// computes from the journal so far.
func TestEveryFigureIsComputed(t *testing.T) {
	story := journaltest.New(2).Entries
	for _, n := range []int{9, 60, 200, 500, 1000, 1400, len(story) * 3 / 4, len(story) - 30, len(story)} {
		if n = min(n, len(story)); n < 1 {
			continue
		}
		checkMoment(t, story[:n])
	}
}

func checkMoment(t *testing.T, entries []journal.Entry) {
	t.Helper()
	root := t.TempDir()
	dir := write(t, root, "demo-1", entries)
	if entries[len(entries)-1].Kind != journal.Done {
		hold(t, dir)
	}
	b, server := boardAt(t, root, wallOf(entries))
	await(t, b, 1)
	text, err := os.ReadFile(filepath.Join(dir, rundir.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	var report cost.Report
	if err := json.Unmarshal([]byte(get(t, server, "/api/runs/demo-1", http.StatusOK)), &report); err != nil {
		t.Fatal(err)
	}
	f, err := reckon.Of(bytes.NewReader(text), report.Run.AsOf)
	if err != nil {
		t.Fatal(err)
	}
	at := entries[len(entries)-1].T.Format("15:04:05")
	for name, pair := range map[string][2]float64{
		"total": {usd(report.Totals.Total), f.Total}, "spot": {usd(report.Totals.Spot), f.Spot}, "saving": {usd(report.Totals.Saving), f.Saving},
		"on demand": {usd(report.Totals.OnDemand), f.OnDemand}, "hours": {report.Totals.MachineHours, f.MachineHours},
		"evictions": {float64(report.Totals.Evictions), float64(f.Evictions)}, "clocks": {float64(report.Training.Clocks), float64(f.Clocks)},
		"decisions": {float64(len(report.Decisions)), float64(f.Decisions)}, "lost": {float64(report.Training.LostClocks), float64(f.LostClocks)},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-6 {
			t.Errorf("at %s the JSON's %s is %v; reckoned %v", at, name, pair[0], pair[1])
		}
	}
	shown := readPage(get(t, server, "/runs/demo-1", http.StatusOK))
	if len(shown.Cards) < 4 && f.Clocks > 0 || len(shown.Tables) < 5 {
		t.Errorf("at %s the page has %d cards and %d tables", at, len(shown.Cards), len(shown.Tables))
	}
	for _, wrong := range shown.Differences(f) {
		t.Errorf("at %s: %s", at, wrong)
	}
	checkMetrics(t, at, get(t, server, "/metrics", http.StatusOK), f)
	server.Close()
}

func usd(v market.USD) float64 { return float64(v) / float64(market.Dollar) }

// wallOf returns the wall-clock time that a story has reached.
func wallOf(entries []journal.Entry) time.Time {
	told := status.New()
	for _, e := range entries {
		told.Feed(e)
	}
	return told.Mapping.WallAt(told.Now)
}

// clockOf returns a clock that continues from there. With today's, the replayed market of a running run would be years ahead of its story,
// with hours to bill for each.
func clockOf(entries []journal.Entry) func() time.Time {
	from, began := wallOf(entries), time.Now()
	return func() time.Time { return from.Add(time.Since(began)) }
}

// boardAt returns a board whose clock stands still.
func boardAt(t *testing.T, root string, now time.Time) (*Board, *httptest.Server) {
	t.Helper()
	return boardWith(t, root, func() time.Time { return now }, nil)
}

// hold locks a run's directory as a running run does.
func hold(t *testing.T, dir string) {
	t.Helper()
	holder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { holder.Close() })
	if err := syscall.Flock(int(holder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
}

// checkMetrics checks that every series of the one run has the reckoned value.
func checkMetrics(t *testing.T, at, text string, f *reckon.Figures) {
	t.Helper()
	got := map[string]float64{}
	for _, m := range regexp.MustCompile(`(?m)^tierml_([a-z_]+)\{([^}]*)\} (\S+)$`).FindAllStringSubmatch(text, -1) {
		labels := strings.Trim(strings.ReplaceAll(strings.Replace(m[2], `run="demo-1"`, "", 1), ",,", ","), ",")
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		got[strings.TrimSuffix(m[1]+" "+labels, " ")] = v
	}
	want := map[string]float64{
		"run_clock": float64(f.Clock), "run_clocks_wanted": float64(f.Goal), "run_spent_dollars": f.Total,
		"launches_total": float64(f.Launches), "launch_failures_total": float64(f.LaunchFailures), "eviction_notices_total": float64(f.Notices),
		"evictions_total": float64(f.Evictions), "failures_total": float64(f.Failures), "rollbacks_total": float64(f.Rollbacks),
		"switches_total": float64(f.Switches), "clocks_total": float64(f.ClocksDone), "lost_clocks_total": float64(f.LostClocks),
		"cut_bytes_total": float64(f.CutBytes), "checkpoint_bytes_total": float64(f.CheckpointBytes), "moved_bytes_total": float64(f.MovedBytes),
		"clock_seconds_sum": f.ClockSeconds, "clock_seconds_count": float64(f.ClocksDone),
		"cut_seconds_sum": f.CutSeconds, "cut_seconds_count": float64(f.CutCount),
		"eviction_notice_lead_seconds_sum": sum(f.Lead), "eviction_notice_lead_seconds_count": float64(len(f.Lead)),
		"flush_seconds_sum": sum(f.Flushes), "flush_seconds_count": float64(len(f.Flushes)),
		"run_running": 0, `run_info app="mf",job="demo",rules="ec2-2017"`: 1,
	}
	if f.Equivalent > 0 || f.Outcome != "" { // no work counts before
		want["run_saved_dollars"] = f.Saving
	}
	if f.Stage != "" {
		want["run_stage"] = number(f.Stage)
	}
	for data, loss := range map[string]*float64{"train": f.Train, "test": f.Test} {
		if loss != nil {
			want[`run_loss data="`+data+`"`] = *loss
		}
	}
	if f.Outcome == "" {
		want["run_running"], want["run_paused"], want["run_dollars_per_hour"] = 1, 0, f.PerHour
		for pool, price := range f.Prices {
			want[`pool_price_dollars_per_hour pool="`+pool+`"`] = price
		}
		for _, m := range f.Machines {
			if m.Ended.IsZero() {
				if m.Cores > 0 {
					of := `instance="` + m.ID + `",pool="` + m.Pool + `"`
					want["machine_cores_used "+of], want["machine_memory_used_bytes "+of] = m.Cores, m.Memory
				}
				state := map[bool]string{true: "training", false: "starting"}[m.Training]
				if m.Leaving {
					state = "leaving"
				}
				want[`run_machines pool="`+m.Pool+`",state="`+state+`",tier="`+m.Tier+`"`]++
				if m.Bid > 0 {
					want[`pool_bid_dollars_per_hour pool="`+m.Pool+`"`] = m.Bid
				}
			}
		}
	}
	if left, estimated := got["run_left_seconds"]; estimated && f.Outcome == "" {
		want["run_left_seconds"], want["run_expected_dollars"] = left, f.Total+f.PerHour*left/3600
		if f.ClocksDone < 2 { // there is no pace yet
			want["run_expected_dollars"] = 9 // by the story's plan
		}
	}
	for name, v := range want {
		if have, there := got[name]; !there || math.Abs(have-v) > 1e-6*max(1, math.Abs(v)) {
			t.Errorf("at %s the metric %s is %v (there: %v); reckoned %v", at, name, have, there, v)
		}
		delete(got, name)
	}
	for name, v := range got {
		if strings.Contains(name, "_bucket ") || strings.HasPrefix(name, "run_machines ") && v == 0 || strings.HasPrefix(name, "pool_mttf_seconds ") {
			continue
		}
		t.Errorf("at %s nobody reckons the metric %s, %v", at, name, v)
	}
}

func number(text string) float64 {
	v, _ := strconv.ParseFloat(text, 64) // a value that is not a number fails the comparison
	return v
}

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

// A hundred runs have a bounded number of series, and those that ended long ago have none.
func TestSeriesAreFew(t *testing.T) {
	root, story := t.TempDir(), journaltest.New(1).Entries
	for i := range 100 {
		dir := write(t, root, fmt.Sprintf("demo-%d", i+1), story[:60])
		if i >= 50 { // two days ago
			if err := os.Chtimes(filepath.Join(dir, rundir.JournalFile), time.Time{}, time.Now().Add(-48*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	b, server := board(t, root)
	await(t, b, 100)
	text := get(t, server, "/metrics", http.StatusOK)
	series := len(regexp.MustCompile(`(?m)^tierml_`).FindAllString(text, -1))
	if each := float64(series) / 50; each > 80 || each < 20 {
		t.Errorf("%d series of 50 runs of the last day: %.0f each", series, each)
	}
	t.Logf("%.0f series of a run", float64(series)/50)
	if strings.Contains(text, `run="demo-51"`) || !strings.Contains(text, `run="demo-50"`) {
		t.Error("the wrong runs are exposed")
	}
}

// The job's limits, the expected lifetimes of pools, and a job server's state are there with their values.
func TestPromisesAndServer(t *testing.T) {
	root := t.TempDir()
	story := promising(t)[:300]
	hold(t, write(t, root, "demo-1", story))
	b, server := boardWith(t, root, clockOf(story), func() Manager {
		return Manager{Spent: 7 * market.Dollar, Rate: 2 * market.Dollar, Budget: 50 * market.Dollar, PerHour: 4 * market.Dollar,
			Jobs: []Row{{Summary: Summary{State: "queued"}}, {Summary: Summary{State: "queued"}}, {Summary: Summary{State: "failed"}}}}
	})
	await(t, b, 1)
	text := get(t, server, "/metrics", http.StatusOK)
	for _, line := range []string{`run_budget_dollars{run="demo-1"} 60`, `run_limit_dollars_per_hour{run="demo-1"} 3.5`,
		`run_staleness_bound_clocks{run="demo-1"} 2`, `pool_mttf_seconds{pool="` + journaltest.FirstPool + `",run="demo-1"} 11160`,
		`controller_jobs{state="queued"} 2`, `controller_jobs{state="failed"} 1`, `controller_jobs{state="running"} 0`,
		`controller_spent_dollars 7`, `controller_budget_dollars 50`, `controller_dollars_per_hour 2`, `controller_limit_dollars_per_hour 4`} {
		if !strings.Contains(text, "\ntierml_"+line+"\n") {
			t.Errorf("%q is not among the metrics", line)
		}
	}
}

// promising returns the story of a job with limits on its cost.
func promising(t *testing.T) []journal.Entry {
	t.Helper()
	story := journaltest.New(1).Entries
	details, err := story[0].StartDetails()
	if err != nil {
		t.Fatal(err)
	}
	details.Job = json.RawMessage(`{"budget":"$60","limits":{"per_hour":"$3.5"},"train":{"staleness":2}}`)
	if story[0].Details, err = journal.Pack(details); err != nil {
		t.Fatal(err)
	}
	return story
}
