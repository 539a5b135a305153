package dashboard

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/internal/rundir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write creates a run with these entries.
func write(t *testing.T, root, name string, entries []journal.Entry) string {
	t.Helper()
	dir := filepath.Join(root, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := journal.Create(filepath.Join(dir, rundir.JournalFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// board follows a root until the test ends.
func board(t *testing.T, root string) (*Board, *httptest.Server) {
	t.Helper()
	return boardWith(t, root, time.Now, nil)
}

func boardWith(t *testing.T, root string, now func() time.Time, manager func() Manager) (*Board, *httptest.Server) {
	t.Helper()
	b := New(root, now, slog.New(slog.DiscardHandler))
	if manager != nil {
		b.ManagedBy(func(*http.Request) Manager { return manager() }, nil)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { b.Run(ctx) })
	server := httptest.NewServer(b.Handler())
	t.Cleanup(func() {
		server.Close()
		cancel()
		following.Wait()
	})
	return b, server
}

func get(t *testing.T, server *httptest.Server, path string, code int) string {
	t.Helper()
	answer, err := server.Client().Get(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != code {
		t.Fatalf("%s: %s: %s", path, answer.Status, text)
	}
	return string(text)
}

// await waits until all runs have been read.
func await(t *testing.T, b *Board, n int) {
	t.Helper()
	for {
		read := 0
		for _, r := range b.all() {
			r.mu.Lock()
			if r.caught {
				read++
			}
			r.mu.Unlock()
		}
		if read == n {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("runs were not read")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// The figures shown are those of the same journal's report.
func TestFiguresMatchTheJournal(t *testing.T) {
	root, story := t.TempDir(), journaltest.New(1).Entries
	write(t, root, "demo-1", story)
	write(t, root, "demo-2", story[:len(story)/2])
	b, server := board(t, root)
	await(t, b, 2)

	var ledger cost.Ledger
	for _, e := range story {
		if err := ledger.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	want, err := ledger.Report(ledger.AsOf())
	if err != nil {
		t.Fatal(err)
	}
	var got cost.Report
	if err := json.Unmarshal([]byte(get(t, server, "/api/runs/demo-1", http.StatusOK)), &got); err != nil {
		t.Fatal(err)
	}
	if got.Totals != want.Totals || got.Training.Clocks != want.Training.Clocks || len(got.Events) != len(want.Events) {
		t.Errorf("the report says %+v; want %+v", got.Totals, want.Totals)
	}
	var rows []Summary
	if err := json.Unmarshal([]byte(get(t, server, "/api/runs", http.StatusOK)), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[0].State != "finished" || rows[1].State != "killed" || rows[0].Spent != want.Totals.Total.String() {
		t.Errorf("the list says %+v; want %s spent", rows, want.Totals.Total)
	}
	page := get(t, server, "/runs/demo-1", http.StatusOK)
	for _, words := range []string{want.Totals.Total.Cents(), "why not the cheaper pool", "<script>", `href="/"`} {
		if !strings.Contains(page, words) {
			t.Errorf("%q is not on the page", words)
		}
	}
	if n := len(page); n > 300<<10 {
		t.Errorf("the page has %d bytes; a first load must stay below 300 KB", n)
	}
	list := get(t, server, "/", http.StatusOK)
	for _, words := range []string{`href="/runs/demo-1"`, `href="/runs/demo-2"`, "killed", want.Totals.Total.Cents()} {
		if !strings.Contains(list, words) {
			t.Errorf("%q is not in the list", words)
		}
	}
	if said := get(t, server, "/runs/demo-3", http.StatusNotFound); !strings.Contains(said, "no run &#34;demo-3&#34;") {
		t.Errorf("an unknown run: %s", said)
	}
}

// Metrics have good names and agree with the journal.
func TestMetrics(t *testing.T) {
	root, story := t.TempDir(), journaltest.New(1).Entries
	write(t, root, "demo-1", story)
	b, server := board(t, root)
	await(t, b, 1)
	count := map[journal.Kind]int{}
	for _, e := range story {
		count[e.Kind]++
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(b)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	text := get(t, server, "/metrics", http.StatusOK)
	for name, n := range map[string]int{"launches": count[journal.Launch], "evictions": count[journal.Evicted],
		"rollbacks": count[journal.Rollback], "clocks": count[journal.ClockDone]} {
		if line := "tierml_" + name + `_total{run="demo-1"} ` + fmtInt(n) + "\n"; n == 0 || !strings.Contains(text, line) {
			t.Errorf("%q is not in\n%s", line, text)
		}
	}
	if more, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(more) > 0 {
		t.Errorf("%v, %v", more, err)
	}
}

func fmtInt(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}

// A foreign page that makes a browser query us under its own host name learns nothing.
func TestOtherHostsAreRefused(t *testing.T) {
	_, server := board(t, t.TempDir())
	for host, code := range map[string]int{"localhost": 200, "localhost:7070": 200, "127.0.0.1:1": 200, "[::1]:7070": 200,
		"evil.example": 403, "10.0.0.1:7070": 403, "localhost.evil.example": 403, "": 200} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/runs", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		answer, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != code {
			t.Errorf("host %q: %s; want %d", host, answer.Status, code)
		}
	}
}

// An unreadable journal is reported on its page, and the others are still shown.
func TestBadJournal(t *testing.T) {
	root, story := t.TempDir(), journaltest.New(1).Entries
	dir := write(t, root, "bad-1", story[:40])
	f, err := os.OpenFile(filepath.Join(dir, rundir.JournalFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("rubbish\n"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	write(t, root, "demo-1", story)
	b, server := board(t, root)
	await(t, b, 2)
	if page := get(t, server, "/runs/bad-1", http.StatusOK); !strings.Contains(page, "journal line 41") {
		t.Error("the bad line is not on its page")
	}
	get(t, server, "/runs/demo-1", http.StatusOK)
}

// `make test-metrics` runs it.
func TestPromtool(t *testing.T) {
	promtool := os.Getenv("TIERML_PROMTOOL")
	if promtool == "" {
		t.Skip("TIERML_PROMTOOL is not set; `make test-metrics` sets it to Prometheus's promtool")
	}
	root := t.TempDir()
	write(t, root, "demo-1", journaltest.New(1).Entries)
	b, server := board(t, root)
	await(t, b, 1)
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(get(t, server, "/metrics", http.StatusOK))
	if said, err := check.CombinedOutput(); err != nil || len(said) > 0 {
		t.Errorf("%v: %s", err, said)
	}
}

// The rules, the Grafana dashboard and the page about them name metrics that exist.
func TestNamedMetricsExist(t *testing.T) {
	root := t.TempDir()
	story := promising(t)
	story = slices.Insert(story[:len(story)/2], len(story)/2, journal.Entry{T: story[len(story)/2-1].T, Kind: journal.Use, Instance: running(story[:len(story)/2]), Seconds: 10,
		OfUse: journal.OfUse{CPU: 15, Memory: 1 << 20, GPU: 5, GPUMemory: 1, BytesIn: 1000}})
	dir := write(t, root, "demo-1", story)
	holder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if err := syscall.Flock(int(holder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil { // it is in progress
		t.Fatal(err)
	}
	own := arrayStory(t)
	own[8].CPU, own[8].Memory = 300, 1<<20 // task-0's end
	write(t, root, "films-1", own)
	shareHosts(t, root, "a-1") // before the board looks: without its lock the run would count as killed
	b, server := boardWith(t, root, clockOf(story), func() Manager {
		return Manager{Budget: 1, PerHour: 1, Sweeps: []Sweep{{ID: "rates-1", Budget: "5", Trials: []Trial{{State: "running"}}}}, Grants: &Grants{}}
	})
	await(t, b, 3)
	there := get(t, server, "/metrics", http.StatusOK)
	for _, want := range []string{`tierml_run_cores_used{run="films-1",type="m"} 30`, `tierml_machine_cores_used{instance="`, `,run="demo-1"} 1.5`, `tierml_machine_gpu_used_ratio{`,
		`tierml_machine_network_bytes_per_second{direction="in"`} {
		if !strings.Contains(there, want) {
			t.Errorf("no metric %s", want)
		}
	}
	name := regexp.MustCompile(`tierml_[a-z_]+`)
	for _, file := range []string{"deploy/prometheus/alerts.yml", "deploy/grafana/tierml.json", "docs/watching.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		named := name.FindAllString(string(text), -1)
		if len(named) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, n := range named {
			whole := regexp.MustCompile(`_seconds_(bucket|sum|count)$`).ReplaceAllString(n, "_seconds") // of a histogram
			if !strings.Contains(there, "\n# TYPE "+whole+" ") {
				t.Errorf("%s names %s, which does not exist", file, n)
			}
		}
	}
}

// running returns a machine that runs at the end of a story.
func running(story []journal.Entry) (id string) {
	ended := map[string]bool{}
	for _, e := range slices.Backward(story) {
		ended[e.Instance] = ended[e.Instance] || e.Ended != nil
		if e.Kind == journal.Launch && !ended[e.Instance] {
			return e.Instance
		}
	}
	return ""
}
