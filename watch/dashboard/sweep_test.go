package dashboard

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal/journaltest"
)

// A sweep's page has its trials, the best first, with what is known about waiting ones, and draws their losses; the list and the metrics
// name it.
func TestSweepPage(t *testing.T) {
	root := t.TempDir()
	entries := journaltest.New(3).Entries
	write(t, root, "rates-1", entries)
	good, bad := .25, .5
	s := Sweep{ID: "rates-1", Job: "rates", Of: 4, Feedback: []int64{10, 20}, Spent: "1.25", Budget: "5", Seconds: 7200, Trials: []Trial{
		{Run: "rates-3", State: "queued", Why: "waits for <its> turn", Params: map[string]any{"step": .5}},
		{Run: "rates-2", State: "stopped", Why: "killed", Params: map[string]any{"step": 9.5}, Losses: []*float64{&bad, nil}, Seconds: 60},
		{Run: "rates-1", State: "finished", Params: map[string]any{"rank": 8.0, "step": .125}, Losses: []*float64{&bad, &good}, Test: &good, Spent: "1.25", Seconds: 7200, Clock: 40},
	}}
	s.Rank()
	if s.Best != "rates-1" || s.Trials[0].Run != "rates-1" || s.Trials[1].Run != "rates-2" || s.Counts() != "1 queued, 1 finished, 1 stopped, 1 to come" {
		t.Errorf("%s, %s: %+v", s.Best, s.Counts(), s.Trials)
	}
	stopped := Sweep{ID: "all-1", Trials: []Trial{{Run: "all-1", State: "stopped", Test: &bad}, {Run: "all-2", State: "stopped", Test: &good}, {Run: "all-3", State: "stopped"}}}
	stopped.Rank()
	if stopped.Best != "" || stopped.Leader != "all-2" || s.Leader != "" {
		t.Errorf("of a sweep without a finished trial, %q is the best and %q the best so far", stopped.Best, stopped.Leader)
	}
	b, server := boardWith(t, root, time.Now, func() Manager {
		return Manager{Sweeps: []Sweep{s, stopped}, Grants: &Grants{Workers: 5, Paused: 2, Longest: time.Minute}}
	})
	await(t, b, 1)
	page := get(t, server, "/sweeps/rates-1", 200)
	for _, want := range []string{"rank 8, step 0.125", "waits for &lt;its&gt; turn", "loss at 20", "no number", "$1.25", "of a budget of $5.00", `href="/runs/rates-1"`, "over dollars", "over hours", "<path class=\"line s0"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	var read Sweep
	if err := json.Unmarshal([]byte(get(t, server, "/api/sweeps/rates-1", 200)), &read); err != nil || len(read.Trials) != 3 || read.Trials[1].Losses[1] != nil {
		t.Errorf("%+v, %v", read, err)
	}
	get(t, server, "/sweeps/rates-2", 404)
	if page := get(t, server, "/sweeps/all-1", 200); !strings.Contains(page, "Best so far") || !strings.Contains(page, `href="/runs/all-2"`) {
		t.Error("the page of a stopped sweep does not name the best trial so far")
	}
	if list := get(t, server, "/", 200); !strings.Contains(list, `<a href="/sweeps/rates-1">rates-1</a>`) {
		t.Error("the list does not name the sweep")
	}
	metrics := get(t, server, "/metrics", 200)
	for _, want := range []string{`tierml_sweep_trials{state="queued",sweep="rates-1"} 1`, `tierml_sweep_spent_dollars{sweep="rates-1"} 1.25`, `tierml_sweep_budget_dollars{sweep="rates-1"} 5`,
		"tierml_scheduler_workers 5", "tierml_scheduler_paused_jobs 2", "tierml_scheduler_longest_wait_seconds 60"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no metric %s", want)
		}
	}
}
