package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/market"
)

// arrayStory returns a run of an array of four tasks on a replayed market: task-0 is done, task-1 failed, task-2 runs on its second machine,
// task-3 waits.
func arrayStory(t *testing.T) []journal.Entry {
	t.Helper()
	pack := func(v any) json.RawMessage {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	const pool = "ec2/r/ra/m/spot"
	at := func(s int) time.Time { return time.Date(2016, 4, 1, 0, 0, s, 0, time.UTC) }
	begin := at(0)
	of := func(task string) journal.OfProgram { return journal.OfProgram{Program: task} }
	loss := .25
	story := []journal.Entry{
		{T: at(0), Kind: journal.Start, Details: pack(journal.StartDetails{Name: "films", Rules: "ec2-now", Clock: "2016-04-01T00:00:00Z@2026-04-01T00:00:00Z*60",
			Machines: []journal.MachineType{{Name: "m", VCPU: 4, OnDemand: "0.4", FLOPS: 100}}, Want: journal.Want{Machines: 2}, Clocks: 4,
			Program: &journal.ProgramDetails{Tasks: 4}})},
		{T: at(0), Kind: journal.Price, Pool: pool, USD: "0.36", At: &begin},
	}
	for _, id := range []string{"a", "b"} {
		story = append(story, journal.Entry{T: at(0), Kind: journal.Launch, Instance: id, Tier: "transient", Pool: pool, Bid: "1", Launched: &begin},
			journal.Entry{T: at(60), Kind: journal.Join, Instance: id})
	}
	return append(story,
		journal.Entry{T: at(60), Kind: journal.ProgramStart, OfProgram: of("task-0"), Instance: "a", Generation: 1},
		journal.Entry{T: at(60), Kind: journal.ProgramStart, OfProgram: of("task-1"), Instance: "b", Generation: 2},
		journal.Entry{T: at(660), Kind: journal.ProgramEnd, OfProgram: of("task-0"), Instance: "a", Generation: 1, Outcome: journal.Finished},
		journal.Entry{T: at(700), Kind: journal.ProgramEnd, OfProgram: journal.OfProgram{Program: "task-1", Code: 3}, Instance: "b", Generation: 2, Outcome: journal.Failure, Why: "it ended with exit code 3"},
		journal.Entry{T: at(700), Kind: journal.ProgramStart, OfProgram: of("task-2"), Instance: "a", Generation: 3},
		journal.Entry{T: at(800), Kind: journal.ProgramEnd, OfProgram: of("task-2"), Instance: "a", Generation: 3, Outcome: journal.Lost, Why: "its machine is gone"},
		journal.Entry{T: at(1260), Kind: journal.ProgramStart, OfProgram: of("task-2"), Instance: "b", Generation: 4},
		journal.Entry{T: at(1280), Kind: journal.ProgramStep, OfProgram: of("task-2"), Generation: 4, Clock: 17, TrainLoss: &loss},
	)
}

// The page of a program shows what it does, what went wrong and where, before anything else; nothing on it is about training.
func TestPageOfAProgram(t *testing.T) {
	root := t.TempDir()
	dir := write(t, root, "films-1", arrayStory(t))
	logs := filepath.Join(dir, rundir.LogsDir)
	if err := os.MkdirAll(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"task-1.2.log": "first line\n" + strings.Repeat("more\n", 30) + "<script>alert(1)</script> no such scene\n", "task-1.1.log": "older\n",
		"task-2.4.log": "frame 17\n", "controller.log": "launching\n", "a.log": "launching, too\n",
	} {
		if err := os.WriteFile(filepath.Join(logs, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	hold(t, dir)
	end := time.Date(2026, 4, 1, 0, 0, 1280/60, 0, time.UTC)
	b, server := boardAt(t, root, end)
	await(t, b, 1)
	page := get(t, server, "/runs/films-1", http.StatusOK)
	for _, want := range []string{
		`<dt>Tasks done</dt><dd>1</dd>`, "of 4", "Last output of task-1.2", "&lt;script&gt;alert(1)&lt;/script&gt; no such scene",
		`<tr id="task-1"><th scope="row">task-1</th><td data-is="state"><span class="outcome failed">failed</span>`, "it ended with exit code 3",
		`<tr id="task-2"><th scope="row">task-2</th><td data-is="state"><span class="outcome running">running</span></td><td data-is="step" class="n">17</td><td data-is="loss" class="n">0.2500</td><td data-is="attempts" class="n">2</td>`,
		`<dt>Machines</dt><dd>2</dd>`, " stopped cleanly, 1 failed</dd>", `<a href="/runs/films-1/logs?of=task-1.2">`, " of the market, at the pace so far",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	for _, bad := range []string{"Stage", "in training", "Clock</dt>", "clocks", "first line", "Workers to add", "<script>alert"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page of a program has %q", bad)
		}
	}
	if first := get(t, server, "/runs/films-1/logs", http.StatusOK); strings.Contains(first, "launching") {
		t.Error("the controller's log comes before the program's")
	}
	var report struct {
		Programs struct {
			Members []struct{ Name, State string }
		}
	}
	if err := json.Unmarshal([]byte(get(t, server, "/api/runs/films-1", http.StatusOK)), &report); err != nil || len(report.Programs.Members) != 3 {
		t.Errorf("the JSON report has %d tasks that began, not 3 (%v)", len(report.Programs.Members), err)
	}
}

// A gang's page has its loss next to its step, and draws it above prices and machines. It shows no saving before any work counts.
func TestPageOfAGang(t *testing.T) {
	story := arrayStory(t)[:6] // start, price, machines
	d, err := story[0].StartDetails()
	if err != nil {
		t.Fatal(err)
	}
	d.Name, d.Metric, d.Program, d.Clocks = "gang", "loss", &journal.ProgramDetails{Of: 20}, 20
	if story[0].Details, err = journal.Pack(d); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	hold(t, write(t, root, "new-1", story))
	began := story[5].T
	for i, rank := range []string{"rank-0", "rank-1"} {
		of, loss := journal.OfProgram{Program: rank}, .5-float64(i)/4
		story = append(story, journal.Entry{T: began, Kind: journal.ProgramStart, OfProgram: of, Instance: string(rune('a' + i)), Generation: 1})
		story = append(story, journal.Entry{T: began.Add(after(9 + int64(i))), Kind: journal.ProgramStep, OfProgram: of, Generation: 1, Clock: int64(i) + 1, TrainLoss: &loss})
	}
	for i := range int64(2) {
		story = append(story, journal.Entry{T: began.Add(after(20 + i)), Kind: journal.ProgramStep, OfProgram: journal.OfProgram{Program: "rank-1"}, Generation: 1, Clock: 3 + i, TrainLoss: journal.Loss(.125)})
	}
	hold(t, write(t, root, "gang-1", story))
	b, server := boardAt(t, root, wallOf(story))
	await(t, b, 2)
	page := get(t, server, "/runs/gang-1", http.StatusOK)
	if !strings.Contains(page, `<dt>Step</dt><dd>4</dd><dd class="small">of 20 · loss 0.1250</dd>`) {
		t.Error("the last loss is not next to the step")
	}
	if strings.Contains(page, `<td data-is="step"`) {
		t.Error("the table of ranks has a column for steps, of which a gang has one")
	}
	if loss, price := strings.Index(page, "Loss over time"), strings.Index(page, "Price of each pool"); loss < 0 || price < loss {
		t.Errorf("the loss is drawn at %d, the prices at %d", loss, price)
	}
	var runs []Summary
	if err := json.Unmarshal([]byte(get(t, server, "/api/runs", http.StatusOK)), &runs); err != nil || len(runs) != 2 {
		t.Fatal(runs, err)
	}
	for _, s := range runs {
		if s.Spent == "" || (s.Saved != "") != (s.Run == "gang-1") {
			t.Errorf("%s has cost %q and saved %q", s.Run, s.Spent, s.Saved)
		}
	}
}

// Groups and users have this month's real cost apart from their total cost, and a group shows its limits even if it has no run.
func TestSharesOfTheMonth(t *testing.T) {
	now := time.Date(2026, 4, 20, 12, 0, 0, 0, time.UTC)
	v := listView{Manager: &Manager{Groups: map[string]GroupLimits{"vision": {Budget: 9 * market.Dollar, Quota: "jobs: 3"}, "idle": {Quota: "machines: 4"}}}}
	row := func(run, user, spent string, began time.Time, replayed bool, state string) Row {
		return Row{Summary: Summary{Run: run, Group: "vision", User: user, Spent: spent, Started: began, Replayed: replayed, State: state, Transient: 2, Reliable: 1}}
	}
	v.addShares([]Row{row("a-1", "ada", "2", now, false, "running"), row("b-1", "ada", "5", now.AddDate(0, -1, 0), false, "finished"),
		row("c-1", "bob", "50", now, true, "finished")}, now)
	var got []string
	for _, s := range v.Shares {
		got = append(got, fmt.Sprint(s.Of, " ", s.Name, " ", s.Link, " ", s.Running, " ", s.Machines, " ", s.Month, " ", s.All, " ", s.Replayed, " ", s.Budget, " ", s.Quota))
	}
	want := []string{"group vision /?group=vision 1 3 2 7 50 9 jobs: 3", "group idle /?group=idle 0 0 0 0 0 0 machines: 4", "user ada /?user=ada 1 3 2 7 0 0 ", "user bob /?user=bob 0 0 0 0 50 0 "}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Dollars of replayed markets are never added to real ones.
func TestReplayedDollarsAreApart(t *testing.T) {
	row := func(spent string, replayed bool) Row { return Row{Summary: Summary{Spent: spent, Replayed: replayed}} }
	if got := replayedPart([]Row{row("2", true), row("3", false)}); got != ", partly replayed" {
		t.Errorf("the job server's spending: %q", got)
	}
	if got := replayedPart([]Row{row("0", true), row("3", false)}); got != "" {
		t.Errorf("the job server's spending: %q", got)
	}
	day := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	var v listView
	v.addDays([]Row{{Summary: Summary{Run: "a-1", Started: day, Spent: "2", Saved: "1"}}, {Summary: Summary{Run: "b-1", Started: day, Spent: "50", Saved: "9", Replayed: true}}})
	if d := v.Days[0]; d.Spent != 2*market.Dollar || d.Saved != market.Dollar || d.Replayed != 50*market.Dollar || d.Runs != 2 {
		t.Errorf("%+v", d)
	}
}

// What jobs pay for shared hosts is part of the hosts' cost, and counts once.
func TestSharesOfHostsCountOnce(t *testing.T) {
	day := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	next := day.Add(24 * time.Hour)
	var v listView
	v.addDays([]Row{{Summary: Summary{Run: "shared-1", Kind: journal.Hosts, Started: day, Spent: "7", Replayed: true}},
		{Summary: Summary{Run: "a-1", Started: next, Spent: "2", Slots: true, Replayed: true}}, {Summary: Summary{Run: "b-1", Started: next, Spent: "1.5", Slots: true, Replayed: true}},
		{Summary: Summary{Run: "elsewhere-1", Started: next, Spent: "4", Slots: true}}}) // on another user's hosts
	if a, b := v.Days[1], v.Days[0]; a.Replayed != 7*market.Dollar/2 || b.Replayed != 7*market.Dollar/2 || b.Spent != 4*market.Dollar {
		t.Errorf("%+v", v.Days)
	}
}

// DiLoCo counts in rounds of its replicas, and a gang in steps: neither has clocks.
func TestPagesCountInTheUnitsOfTheirKind(t *testing.T) {
	root, story := t.TempDir(), journaltest.New(1).Entries
	averaged := slices.Clone(story[:len(story)/2])
	d, err := averaged[0].StartDetails()
	if err != nil {
		t.Fatal(err)
	}
	d.App = journal.DiLoCo
	if averaged[0].Details, err = journal.Pack(d); err != nil {
		t.Fatal(err)
	}
	for i := range averaged {
		averaged[i].TestLoss = nil // its replicas report one loss
	}
	hold(t, write(t, root, "nano-1", averaged))
	gang := arrayStory(t)[:7]
	if d, err = gang[0].StartDetails(); err != nil {
		t.Fatal(err)
	}
	d.Program = &journal.ProgramDetails{Of: 40}
	if gang[0].Details, err = journal.Pack(d); err != nil {
		t.Fatal(err)
	}
	gang[6].Program = "rank-0"
	for step := range int64(3) {
		gang = append(gang, journal.Entry{T: gang[6].T.Add(time.Duration(step+1) * time.Minute), Kind: journal.ProgramStep, OfProgram: journal.OfProgram{Program: "rank-0"}, Generation: 1, Clock: step + 1, TrainLoss: journal.Loss(float64(9 - step))})
	}
	write(t, root, "gang-1", gang)
	b, server := boardWith(t, root, clockOf(averaged), nil)
	await(t, b, 2)
	for path, wants := range map[string][]string{
		"/runs/nano-1": {"<dt>Replicas</dt>", "<dt>Round</dt>", "<dt>Per round</dt>", "<dt>Train RMSE</dt>", "training, each round", "DiLoCo"},
		"/":            {" of 400 rounds", "1 DiLoCo", "1 gang"},
		"/runs/gang-1": {"Loss over time", `<th scope="col">step</th><th scope="col">time</th>`, "<td>9.0000</td>", "as reported by the program", "Its controller is gone.", "tierml run --resume"},
	} {
		page := get(t, server, path, http.StatusOK)
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("%s does not have %q", path, want)
			}
		}
		for _, bad := range []string{"<dt>Clock</dt>", "each clock", "clocks done", "<dt>Stage</dt>", `<th scope="col">clock</th>`} {
			if strings.Contains(page, bad) {
				t.Errorf("%s has %q", path, bad)
			}
		}
	}
}
