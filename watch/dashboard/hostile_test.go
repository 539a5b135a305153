package dashboard

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/internal/rundir"
)

// sweepStory returns a finished sweep of three trials by RATE: task-1 is the best, task-0 was dropped, task-2 failed. words is added to all
// texts that a user's program and job can choose.
func sweepStory(t *testing.T, words string) []journal.Entry {
	t.Helper()
	story := arrayStory(t)[:6] // start, price, machines
	d, err := story[0].StartDetails()
	if err != nil {
		t.Fatal(err)
	}
	d.Name, d.Metric, d.Program, d.Clocks = "rates"+words, "loss"+words, &journal.ProgramDetails{Tasks: 3, Of: 20, Sweep: true}, 3
	if story[0].Details, err = journal.Pack(d); err != nil {
		t.Fatal(err)
	}
	began := story[5].T
	for i, rate := range []string{"0.001", "0.1", "10"} {
		of := journal.OfProgram{Program: "task-" + string(rune('0'+i))}
		settings := `{"settings":{"RATE":"` + rate + `","NAME":` + quoted(words) + `,"KIND` + quoted(words)[1:] + `:"` + rate + `"}}`
		attempt := uint64(i + 1)
		step := func(s, at int64, loss float64) {
			story = append(story, journal.Entry{T: began.Add(after(s)), Kind: journal.ProgramStep, OfProgram: of, Generation: attempt, Clock: at, TrainLoss: &loss})
		}
		story = append(story, journal.Entry{T: began.Add(after(int64(100 * i))), Kind: journal.ProgramStart, OfProgram: of, Instance: "a", Generation: attempt, Details: []byte(settings)})
		step(int64(100*i)+10, 1, float64(4-i))
		step(int64(100*i)+50, 10, float64(2-i)/4+.5)
		end := journal.Entry{T: began.Add(after(int64(100*i) + 90)), Kind: journal.ProgramEnd, OfProgram: of, Instance: "a", Generation: attempt, Clock: 10, Outcome: journal.Stopped}
		switch i {
		case 0:
			story = append(story, end, journal.Entry{T: end.T, Kind: journal.ProgramDropped, OfProgram: of, Clock: 10, Why: "number 3 at step 10" + words})
		case 1:
			end.Outcome, end.TrainLoss = journal.Finished, journal.Loss(.125)
			story = append(story, end)
		case 2:
			end.Outcome, end.Code, end.Why, end.Log = journal.Failure, 9, "it ended with exit code 9"+words, "epoch 1\n"+words+"\nout of memory"
			story = append(story, end)
		}
	}
	for i, cpu := range []float64{10, 20} {
		story = append(story, journal.Entry{T: began.Add(after(int64(10 * i))), Kind: journal.Use, Instance: "a", Seconds: 10, OfUse: journal.OfUse{CPU: cpu, Memory: 1 << 30, GPU: 5, GPUMemory: 2 << 30, BytesIn: 1e6}})
	}
	for i := range story {
		if story[i].Instance != "" {
			story[i].Instance += words
		}
	}
	return append(story, journal.Entry{T: began.Add(after(400)), Kind: journal.Done, Outcome: journal.Failure, Why: "1 of 3 trials failed" + words})
}

func after(seconds int64) time.Duration { return time.Duration(seconds) * time.Second }

func quoted(text string) string {
	out, _ := json.Marshal(text) // a text can be written
	return string(out)
}

// The page of a sweep names the best trial with its settings, why the others are not best, and what went wrong.
func TestPageOfASweep(t *testing.T) {
	root := t.TempDir()
	write(t, root, "rates-1", sweepStory(t, ""))
	b, server := board(t, root)
	await(t, b, 1)
	page := get(t, server, "/runs/rates-1", http.StatusOK)
	for _, want := range []string{
		`<dt>Best trial</dt><dd><a href="#task-1">task-1</a></dd><dd class="small">loss 0.125 at step 10: KIND=0.1 NAME= RATE=0.1</dd>`,
		`<dt>Trials</dt><dd>3</dd><dd class="small">1 failed, 1 finished, 1 dropped</dd>`,
		"What went wrong", "<dt>Exit code</dt><dd>9</dd>", "epoch 1\n\nout of memory", "90 s of work: no state was saved, so it begins anew.", "tierml run --resume " + filepath.Join(root, "rates-1"),
		"number 3 at step 10", "Loss by RATE", "Loss over steps", "Loss over dollars", "RATE, log scale", "A replayed market: its dollars and hours are not real.",
		"1.50 of 4 cores, peak 2.00", "peak 1.1 GB", "50 %, peak 50 %, memory 2.1 GB", "100 kB/s in, 0 B/s out", `<svg class="spark"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if first, last := strings.Index(page, `<tr id="task-1"`), strings.Index(page, `<tr id="task-2"`); first < 0 || last < first {
		t.Errorf("the best trial is at %d, the failed one at %d", first, last)
	}
	for _, bad := range []string{"Clock</dt>", "Stage", "roll-back</dd>", "in training"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page of a sweep has %q", bad)
		}
	}
}

// Whatever a program writes, and whatever names and settings a job chooses, pages contain none of its markup or control characters.
func TestPagesEscapeWhatProgramsChoose(t *testing.T) {
	const words = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b]0;x\a\u009b2J\u202egnp.exe\u2066\r"
	root := t.TempDir()
	dir := write(t, root, "rates-1", sweepStory(t, words))
	logs := filepath.Join(dir, rundir.LogsDir)
	if err := os.MkdirAll(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(logs, "task-2.3.log"), []byte("epoch\n"+words+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, root, "rates-2", sweepStory(t, words+"2"))
	b, server := board(t, root)
	await(t, b, 2)
	for _, path := range []string{"/", "/?q=" + "%3Cscript%3Ealert(1)%E2%80%AE", "/runs/rates-1", "/runs/rates-1/events", "/runs/rates-1/logs?of=task-2.3", "/api/runs", "/api/runs/rates-1", "/compare?run=rates-1&run=rates-2", "/api/compare?run=rates-1&run=rates-2", "/compare?run=rates-1&run=%3Cscript%3Ealert(1)%E2%80%AE", "/runs/%3Cscript%3Ealert(1)%E2%80%AE"} {
		code := http.StatusOK
		if strings.Contains(path, "run=%3C") || strings.HasPrefix(path, "/runs/%3C") {
			code = http.StatusNotFound
		}
		text := get(t, server, path, code)
		for _, bad := range []string{"<script>alert", "<img", "\x1b", "\a", "\u009b", "\u202e", "\u2066", "\r"} {
			if strings.Contains(text, bad) && !(strings.HasPrefix(path, "/api/") && strings.HasPrefix(bad, "<")) { // JSON has no markup
				t.Errorf("%s has %q", path, bad)
			}
		}
	}
}

// So does the list of a job server, whose jobs, groups and users have names that others chose.
func TestListEscapesNames(t *testing.T) {
	const words = "</style><svg/onload=alert(1)>\"'\u200f\u202egnp\u2067\x1b]8;;javascript:alert(1)\a"
	b := New(t.TempDir(), time.Now, slog.New(slog.DiscardHandler))
	b.ManagedBy(func(*http.Request) Manager {
		return Manager{Held: words, Groups: map[string]GroupLimits{"g" + words: {Quota: words}}, Sweeps: []Sweep{{ID: words}}, Jobs: []Row{{Summary: Summary{
			Run: "r" + words, Job: words, App: words, State: words, Kind: words, Group: words, User: "u" + words, Unit: words, Metric: words, Why: words, Clock: 1, Clocks: 2, Began: time.Now(), Spent: words}}}}
	}, nil)
	server := httptest.NewServer(b.Handler())
	defer server.Close()
	for _, query := range []string{"", "?user=" + url.QueryEscape("u"+words), "?group=" + url.QueryEscape(words) + "&state=" + url.QueryEscape(words)} {
		text := get(t, server, "/"+query, http.StatusOK)
		for _, bad := range []string{"<svg/", "</style><", "\u200f", "\u202e", "\u2067", "\x1b", "\a", `href="javascript`} {
			if strings.Contains(text, bad) {
				t.Errorf("/%s has %q", query, bad)
			}
		}
		if !strings.Contains(text, "&lt;svg/onload") {
			t.Errorf("/%s has no job", query)
		}
	}
}

// The list can be filtered by kind, group and user as well as by state, with counts; a sweep has its best trial's loss, not the last
// reported.
func TestListHasFacets(t *testing.T) {
	root := t.TempDir()
	write(t, root, "rates-1", sweepStory(t, ""))
	write(t, root, "films-1", arrayStory(t))
	b, server := board(t, root)
	await(t, b, 2)
	for query, want := range map[string]string{"?kind=sweep": "rates-1", "?kind=array&state=killed": "films-1", "?kind=array&state=failed": "", "?kind=sweep&q=rat": "rates-1", "?user=nobody": ""} {
		if got := strings.Join(rowsOf(get(t, server, "/"+query, http.StatusOK)), " "); got != want {
			t.Errorf("%s lists %q, not %q", query, got, want)
		}
	}
	text := get(t, server, "/?kind=sweep", http.StatusOK)
	for _, want := range []string{`<option value="sweep" selected>sweep (1)</option>`, `<a href="/?kind=array">1 array</a>`, `<td data-is="loss" class="n">0.1250`, `<td data-is="kind">sweep`, "Show all 2", "<small>market "} {
		if !strings.Contains(text, want) {
			t.Errorf("the list does not have %q", want)
		}
	}
	if strings.Contains(text, `name="user"`) || !strings.Contains(get(t, server, "/?user=x", http.StatusOK), `name="user"`) {
		t.Error("a choice among no users is offered, or one that was made is not shown")
	}
}

// Two runs are shown side by side with their figures, their different settings, and their losses.
func TestRunsAreCompared(t *testing.T) {
	root, story := t.TempDir(), journaltest.New(1).Entries
	write(t, root, "demo-1", story)
	other := slices.Clone(story)
	d, err := other[0].StartDetails()
	if err != nil {
		t.Fatal(err)
	}
	d.Job = []byte(`{"name":"demo","train":{"data":"/srv/inputs/x","rate":0.5}}`)
	if other[0].Details, err = journal.Pack(d); err != nil {
		t.Fatal(err)
	}
	write(t, root, "demo-2", other)
	write(t, root, "rates-1", sweepStory(t, ""))
	b, server := board(t, root)
	b.Shows(func(text string) string { return strings.ReplaceAll(text, "/srv/inputs/x", "uploaded:x") })
	await(t, b, 3)
	page := get(t, server, "/compare?run=demo-1&run=demo-2", http.StatusOK)
	for _, want := range []string{`<th scope="row"><code>train.rate</code></th><td></td><td>0.5</td>`, "<td>uploaded:x</td>", `<th scope="row">state</th><td>finished</td><td>finished</td>`, "RMSE over clocks", "RMSE over hours", "RMSE over dollars", `<i class="k0"></i>demo-1`, `<i class="k1"></i>demo-2`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if page := get(t, server, "/compare?run=demo-1&run=rates-1", http.StatusOK); !strings.Contains(page, "count in different units") || strings.Contains(page, "<svg") {
		t.Error("clocks and steps are drawn on one axis")
	}
	var named []struct{ Name string }
	if err := json.Unmarshal([]byte(get(t, server, "/api/compare?run=demo-1&run=demo-2", http.StatusOK)), &named); err != nil || len(named) != 2 || named[1].Name != "demo-2" {
		t.Errorf("%v: %+v", err, named)
	}
	get(t, server, "/compare?run=demo-1", http.StatusBadRequest)
	get(t, server, "/compare?run=demo-1&run=demo-1", http.StatusBadRequest)
	get(t, server, "/compare?run=demo-1&run=none-1", http.StatusNotFound)
	get(t, server, "/compare?"+strings.Repeat("run=demo-1&run=demo-2&", 5), http.StatusBadRequest)
	b.rights = func(_ *http.Request, s Summary) (sees, changes bool) { return s.Run != "demo-2", false }
	for _, path := range []string{"/compare", "/api/compare"} {
		if text := get(t, server, path+"?run=demo-1&run=demo-2", http.StatusNotFound); strings.Contains(text, "train.rate") {
			t.Error("a run that the client may not see is compared")
		}
	}
}

// The best trial of a damaged journal may be none of its tasks: the page shows the first one's output.
func TestOutputOfADamagedSweep(t *testing.T) {
	dir := t.TempDir()
	logs := filepath.Join(dir, rundir.LogsDir)
	if err := errors.Join(os.MkdirAll(logs, 0o755), os.WriteFile(filepath.Join(logs, "other.1.log"), []byte("epoch 1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	programs := &cost.Programs{Members: []cost.Member{{Name: "other"}}, Trials: []cost.Trial{{Task: 7, Loss: journal.Loss(1)}}}
	if out := newRun(dir, false).output(programs, strings.Clone); out == nil || out.Text != "epoch 1" {
		t.Errorf("%+v", out)
	}
}
