package dashboard

import (
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/market"
)

// rowsOf returns the names in the list, in its order.
func rowsOf(text string) (names []string) {
	for _, m := range regexp.MustCompile(`<tr id="run-([^"]+)"`).FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// Sorting and filtering the list needs only its address, no script.
func TestList(t *testing.T) {
	root, story := t.TempDir(), journaltest.New(1).Entries
	write(t, root, "demo-10", story[:len(story)/3])
	write(t, root, "demo-9", story)
	write(t, root, "other-1", story[:len(story)/2])
	b, server := board(t, root)
	await(t, b, 3)
	for query, want := range map[string]string{
		"?sort=run":                   "demo-9 demo-10 other-1",
		"?sort=-run":                  "other-1 demo-10 demo-9",
		"?sort=spent":                 "demo-10 other-1 demo-9",
		"?sort=-clock":                "demo-9 other-1 demo-10",
		"":                            "other-1 demo-10 demo-9",
		"?sort=rubbish":               "other-1 demo-10 demo-9",
		"?q=DEMO":                     "demo-10 demo-9",
		"?state=finished":             "demo-9",
		"?state=killed&sort=-spent":   "other-1 demo-10",
		"?q=nothing":                  "",
		"?page=7":                     "other-1 demo-10 demo-9",
		"?page=x&q=%3Cscript%3Eevil(": "",
	} {
		text := get(t, server, "/"+query, http.StatusOK)
		if got := strings.Join(rowsOf(text), " "); got != want {
			t.Errorf("%q lists %q; want %q", query, got, want)
		}
		if strings.Contains(text, "<script>evil") {
			t.Error("what was asked for became markup")
		}
	}
	if text := get(t, server, "/", http.StatusOK); !strings.Contains(text, `<a href="/?state=finished">1 finished</a> · <a href="/?state=killed">2 killed</a>`) {
		t.Error("the page does not begin with how many runs there are of each state")
	}
	if text := get(t, server, "/?sort=-spent", http.StatusOK); !strings.Contains(text, `aria-sort="descending"><a href="/?sort=spent">`) {
		t.Error("the column that sorts does not say so, or does not turn round")
	}
}

// Running and waiting runs are seen at once, however many have ended.
func TestListShowsRunningRunsFirst(t *testing.T) {
	day := func(n int) time.Time { return journaltest.Began.AddDate(0, 0, n) }
	v := listView{Rows: []Row{{Summary: Summary{Run: "a-1", State: "finished", Started: day(1)}}, {Summary: Summary{Run: "b-1", State: "failed", Started: day(3)}},
		{Summary: Summary{Run: "c-1", State: "queued"}, Place: 2}, {Summary: Summary{Run: "d-1", State: "queued"}, Place: 1},
		{Summary: Summary{Run: "e-1", State: "running", Started: day(0)}}, {Summary: Summary{Run: "f-1", State: "running", Started: day(2)}}}}
	v.sort(httptest.NewRequest(http.MethodGet, "/", nil))
	var names []string
	for _, r := range v.Rows {
		names = append(names, r.Run)
	}
	if got := strings.Join(names, " "); got != "f-1 e-1 d-1 c-1 b-1 a-1" {
		t.Error(got)
	}
}

// For a job server, the list shows queue, limits and jobs without a journal.
func TestListOfAServer(t *testing.T) {
	b := New(t.TempDir(), time.Now, slog.New(slog.DiscardHandler))
	b.ManagedBy(func(*http.Request) Manager {
		return Manager{Running: 1, MaxRunning: 2, Queued: 1, MaxQueued: 100, Spent: 1250 * market.Dollar / 100, Budget: 50 * market.Dollar,
			Rate: 3 * market.Dollar, PerHour: 4 * market.Dollar, Held: "the jobs cost $3.00 an hour",
			Jobs: []Row{{Summary: Summary{Run: "a-1", State: "running", Began: journaltest.Began, Spent: "12.5", Replayed: true}}, {Summary: Summary{Run: "b-1", State: "queued", Why: "waits"}, Place: 1}}}
	}, nil)
	server := httptest.NewServer(b.Handler())
	defer server.Close()
	text := get(t, server, "/", http.StatusOK)
	for _, want := range []string{"of 2 at a time", "of 100 at most", "$12.50", "of a budget of $50.00, replayed", "$3.00", "of $4.00 at most",
		"What waits is not started: the jobs cost $3.00 an hour", "queued #1", "waits", `href="/runs/a-1"`, `max="50" value="12.5"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the list", want)
		}
	}
	if strings.Contains(text, `href="/runs/b-1"`) {
		t.Error("a job without a journal has a link")
	}
}

// A run in accelerated time whose host slept is not billed for years, and one whose journal is still being read is not billed beyond the
// known lines.
func TestAsOfOfAHostThatSlept(t *testing.T) {
	r := newRun(t.TempDir(), true)
	for _, e := range journaltest.New(1).Entries[:200] {
		r.take(e)
	}
	m, last := r.status.Mapping, r.status.Now
	if m.Speed <= 1 {
		t.Fatalf("the story's speed is %g", m.Speed)
	}
	wall := m.WallAt(last)
	if got := r.asOf(wall.Add(time.Minute)); !got.Equal(last) {
		t.Errorf("while the journal is read figures are of %s after the last line", got.Sub(last))
	}
	r.caught = true
	for after, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, 30 * 24 * time.Hour: quiet} {
		if got := r.asOf(wall.Add(after)).Sub(last); got.Round(time.Second) != m.ToMarket(want).Round(time.Second) {
			t.Errorf("%s later figures are of %s after the last line", after, got)
		}
	}
}

// The list begins with what needs attention, and the cost of the last days.
func TestListBeginsWithTroubleAndSpending(t *testing.T) {
	root, story := t.TempDir(), journaltest.New(1).Entries
	write(t, root, "whole-1", story)
	write(t, root, "lost-1", story[:len(story)/2]) // no process holds it
	b, server := board(t, root)
	await(t, b, 2)
	text := get(t, server, "/", http.StatusOK)
	if !strings.Contains(text, `<a href="/runs/lost-1">lost-1</a> its controller is gone`) || strings.Contains(text, `<a href="/runs/whole-1">whole-1</a> `) {
		t.Error("the run that was killed needs attention, and it alone")
	}
	var spent market.USD
	for _, s := range b.Summaries() {
		spent += dollars(s.Spent)
	}
	day := b.Summaries()[0].Started.Format("2006-01-02")
	if want := `aria-hidden="true"></progress></td><td class="n">` + spent.Cents(); !strings.Contains(text, `<th scope="row">`+day+`</th><td class="n">2</td>`) || !strings.Contains(text, want) {
		t.Errorf("the day's sum on replayed markets is not %s", want)
	}
	if n := strings.Count(text, `<svg class="spark"`); n != 2 {
		t.Errorf("%d lines of losses", n)
	}
}

// Events can be searched by words, kinds, machines and times, the newest first.
func TestEventsPage(t *testing.T) {
	root, told := t.TempDir(), journaltest.New(1)
	write(t, root, "demo-1", told.Entries)
	b, server := board(t, root)
	await(t, b, 1)
	report, _, err := b.find("demo-1").report(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	evictions := 0
	for _, e := range report.Events {
		if e.Kind == "evicted" {
			evictions++
		}
	}
	count := func(query string) int {
		return strings.Count(get(t, server, "/runs/demo-1/events"+query, http.StatusOK), "<li class=")
	}
	if n := count(""); n != len(report.Events) {
		t.Errorf("%d events; want %d", n, len(report.Events))
	}
	if n := count("?kind=evicted"); n != evictions || n == 0 {
		t.Errorf("%d evictions; want %d", n, evictions)
	}
	if n := count("?q=EVICTED+bid"); n == 0 || n >= len(report.Events) {
		t.Errorf("%d events have both words", n)
	}
	if n := count("?q=" + told.Machines[20].ID); n == 0 {
		t.Error("a machine is not found by its name, although a line speaks of several")
	}
	if n := count("?q=2014-05-01+roll-back"); n == 0 {
		t.Error("a day is not found")
	}
	first := report.Events[len(report.Events)-1].Text
	if text := get(t, server, "/runs/demo-1/events", http.StatusOK); strings.Index(text, first) > strings.Index(text, "start of demo") {
		t.Error("the newest is not the first")
	}
}

// Only the intended files of a run are served, and its model only with the token.
func TestFiles(t *testing.T) {
	root := t.TempDir()
	dir := write(t, root, "demo-1", journaltest.New(1).Entries)
	for _, name := range []string{"model.safetensors", "state.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, server := board(t, root)
	await(t, b, 1)
	want, err := os.ReadFile(filepath.Join(dir, rundir.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := get(t, server, "/runs/demo-1/files/journal.jsonl", http.StatusOK); got != string(want) {
		t.Error("the journal is not the journal")
	}
	for _, name := range []string{"model.safetensors", "state.json", "report.html", "..%2fdemo-1%2fstate.json", "nothing"} {
		get(t, server, "/runs/demo-1/files/"+name, http.StatusNotFound)
	}
	guarded := httptest.NewServer(b.Guarded())
	defer guarded.Close()
	if answer, err := http.Get(server.URL + "/runs/demo-1/files/journal.jsonl"); err != nil || !answer.Uncompressed {
		t.Errorf("the journal is not sent compressed: %v", err)
	} else {
		answer.Body.Close()
	}
	if got := get(t, guarded, "/runs/demo-1/files/model.safetensors", http.StatusOK); got != "secret" {
		t.Errorf("the model is %q", got)
	}
	if page := get(t, server, "/runs/demo-1", http.StatusOK); !strings.Contains(page, `href="/runs/demo-1/files/journal.jsonl"`) ||
		strings.Contains(page, "files/model") || !strings.Contains(page, "model.safetensors") {
		t.Error("the page's list of files is wrong")
	}
}

// fetch makes requests as browsers do: compressed.
func fetch(t *testing.T, url, tag string) (status, wire int, text string, header http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept-Encoding", "gzip")
	request.Header.Set("If-None-Match", tag)
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Header.Get("Content-Encoding") != "gzip" {
		return answer.StatusCode, len(body), string(body), answer.Header
	}
	z, err := gzip.NewReader(strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, len(body), string(plain), answer.Header
}

// A page of a run with thousands of events stays below 300 KB on the wire, and below 1 MB uncompressed; an unchanged page is not sent
// again; scripts and styles are those that the policy names.
func TestFirstLoad(t *testing.T) {
	root := t.TempDir()
	entries := journaltest.Long(1, 30)
	write(t, root, "long-1", entries)
	b, server := board(t, root)
	await(t, b, 1)
	report, _, err := b.find("long-1").report(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Events) < 1000 || len(report.Instances) < 1000 {
		t.Fatalf("%d events, %d machines: that is not long", len(report.Events), len(report.Instances))
	}
	for _, path := range []string{"/", "/runs/long-1", "/runs/long-1/events"} {
		status, wire, text, header := fetch(t, server.URL+path, "")
		if status != http.StatusOK || wire > 300<<10 || len(text) > 1<<20 {
			t.Errorf("%s: status %d, %d bytes on the wire, %d unpacked", path, status, wire, len(text))
		}
		t.Logf("%s: %d bytes on the wire, %d unpacked; %d journal lines", path, wire, len(text), len(entries))
		if again, _, _, _ := fetch(t, server.URL+path, header.Get("ETag")); again != http.StatusNotModified {
			t.Errorf("%s is sent again: %d", path, again)
		}
		csp := header.Get("Content-Security-Policy")
		if strings.Contains(csp, "unsafe") || !strings.HasPrefix(csp, "default-src 'none'") {
			t.Errorf("the policy is %s", csp)
		}
		for _, inline := range regexp.MustCompile(`(?s)<(?:style|script)>(.*?)</(?:style|script)>`).FindAllStringSubmatch(text, -1) {
			if !strings.Contains(csp, hash(inline[1])) {
				t.Errorf("%s: the policy does not allow what begins with %.40q", path, inline[1])
			}
		}
		if regexp.MustCompile(`<[^>]+ (?:style|on[a-z]+)=`).MatchString(text) {
			t.Errorf("%s has styles or scripts in attributes, which the policy forbids", path)
		}
	}
}

// Many open pages cost as much as one: within a second a page is made once.
func TestManyPagesAreMadeOnce(t *testing.T) {
	made, now := 0, time.Unix(1000, 0)
	k := kept{now: func() time.Time { return now }}
	create := func() (*content, error) { made++; return pack("text/plain", []byte(fmt.Sprint(made))), nil }
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			if c, err := k.get("", false, create); err != nil || string(c.plain) != "1" {
				t.Errorf("%v, %v", c, err)
			}
		})
	}
	asking.Wait()
	ask := func(key string, stands bool, want int) {
		t.Helper()
		if _, err := k.get(key, stands, create); err != nil || made != want {
			t.Errorf("made %d times, %v; want %d", made, err, want)
		}
	}
	now = now.Add(fresh)
	ask("", true, 1) // an unchanged page does not age
	ask("", false, 2)
	ask("other", true, 3)
	slow := create
	create = func() (*content, error) { now = now.Add(time.Minute); return slow() }
	ask("", false, 4)
	now = now.Add((freshTimes - 1) * time.Minute).Add(-time.Second)
	ask("", false, 4) // it took long to make
	now = now.Add(time.Second)
	ask("", false, 5)
}

// Decisions are on the page with the alternatives.
func TestDecisions(t *testing.T) {
	root, story := t.TempDir(), journaltest.New(1).Entries
	at := slices.IndexFunc(story, func(e journal.Entry) bool { return e.Kind == journal.Intent && e.Tier == "transient" })
	details, err := journal.Pack(journal.IntentDetails{Considered: []journal.PlanPool{
		{Pool: journaltest.FirstPool, Price: "0.0324", Bid: "0.239", MTTF: 11160, Chosen: true, Why: "highest MTTF"},
		{Pool: journaltest.OtherPool, Price: "0.0102", Bid: "0.12", MTTF: 7200, Why: "its MTTF is shorter"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	story[at].Details = details
	write(t, root, "demo-1", story)
	b, server := board(t, root)
	await(t, b, 1)
	text := get(t, server, "/runs/demo-1", http.StatusOK)
	for _, want := range []string{"why not the cheaper pool", "cheaper, not chosen", "its MTTF is shorter", "$0.0051" /* 0.0102 for 2 vCPUs */, "$0.0081"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
}

// Of many ended runs, few are completely in memory; all are listed and shown as if they were.
func TestManyRunsUseLittleMemory(t *testing.T) {
	root, story := t.TempDir(), journaltest.New(1).Entries
	const many = 3 * wholeAtOnce
	for i := range many {
		write(t, root, fmt.Sprintf("demo-%d", i+1), story[:100+i])
	}
	b, server := board(t, root)
	await(t, b, many)
	light := func() {
		t.Helper()
		whole := 0
		for _, r := range b.all() {
			r.mu.Lock()
			if r.status != nil {
				whole++
			}
			r.mu.Unlock()
		}
		if whole > wholeAtOnce {
			t.Errorf("%d runs are in memory as a whole", whole)
		}
	}
	rows, metrics := get(t, server, "/api/runs", http.StatusOK), get(t, server, "/metrics", http.StatusOK)
	var asking sync.WaitGroup
	for i := range many {
		asking.Go(func() {
			name := fmt.Sprintf("demo-%d", i+1)
			want, err := Read(t.Context(), filepath.Join(root, name))
			if err != nil {
				t.Error(err)
				return
			}
			_, _, page, _ := fetch(t, server.URL+"/runs/"+name, "")
			if !strings.Contains(page, "<h1>"+name) || !strings.Contains(page, money(want.Spent)) || !strings.Contains(rows, `"spent": "`+want.Spent+`"`) {
				t.Errorf("%s is not shown with the %s that it has cost", name, want.Spent)
			}
		})
	}
	asking.Wait()
	light()
	if again := get(t, server, "/api/runs", http.StatusOK); again != rows {
		t.Error("the list is another one after runs were looked at")
	}
	if again := get(t, server, "/metrics", http.StatusOK); again != metrics {
		t.Error("the metrics are others after runs were looked at")
	}
}
