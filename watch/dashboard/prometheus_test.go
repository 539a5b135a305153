package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
)

// scrapePatience is how long a real Prometheus may take for what must happen. No test proves speed: it is long.
const scrapePatience = 2 * time.Minute

// A real Prometheus, with the configuration and the rules of deploy/prometheus, scrapes a run whose journal grows: every
// series that the dashboard exposes is there, counters rise, and the rules can be evaluated.
func TestPrometheusScrapesARun(t *testing.T) {
	program := os.Getenv("TIERML_PROMETHEUS")
	if program == "" {
		t.Skip("TIERML_PROMETHEUS is not set; `make test-metrics` sets it to Debian's prometheus")
	}
	root := t.TempDir()
	story := promising(t)
	dir := write(t, root, "demo-1", story[:len(story)/2])
	holder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if err := syscall.Flock(int(holder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil { // it is in progress
		t.Fatal(err)
	}
	shareHosts(t, root, "a-1")
	b, server := boardWith(t, root, clockOf(story[:len(story)/2]), func() Manager { return Manager{Budget: 1, PerHour: 1} })
	await(t, b, 2)
	p := startPrometheus(t, program, strings.TrimPrefix(server.URL, "http://"))

	p.until("the run's clocks", func() bool { return p.value(`tierml_clocks_total{run="demo-1"}`) > 0 })
	before := p.value(`tierml_clocks_total{run="demo-1"}`)
	lines, _, err := journal.Resume(filepath.Join(dir, rundir.JournalFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range story[len(story)/2 : len(story)-1] {
		if err := lines.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := lines.Close(); err != nil {
		t.Fatal(err)
	}
	p.until("more clocks", func() bool { return p.value(`tierml_clocks_total{run="demo-1"}`) > before })

	exposed := regexp.MustCompile(`(?m)^(tierml_[a-z_]+)(?:\{|\s)`).FindAllStringSubmatch(get(t, server, "/metrics", http.StatusOK), -1)
	if len(exposed) < 20 {
		t.Fatalf("only %d series are exposed", len(exposed))
	}
	names := p.names()
	for _, m := range exposed {
		if !slices.Contains(names, m[1]) {
			p.until(m[1], func() bool { names = p.names(); return slices.Contains(names, m[1]) })
		}
	}
	if up := p.value(`up{job="tierml"}`); up != 1 {
		t.Errorf("up is %v", up)
	}
	p.everyPanelHasData(t)
	p.until("evaluated rules", func() bool {
		var rules struct {
			Data struct {
				Groups []struct {
					Rules []struct{ Name, Health, LastError string }
				}
			}
		}
		p.ask("/api/v1/rules", nil, &rules)
		n := 0
		for _, g := range rules.Data.Groups {
			for _, r := range g.Rules {
				if r.Health == "err" {
					t.Fatalf("the rule %s: %s", r.Name, r.LastError)
				}
				if r.Health == "ok" {
					n++
				}
			}
		}
		return n > 0
	})
}

// promServer is a server under test.
type promServer struct {
	t      *testing.T
	url    string
	output *bytes.Buffer
	ended  chan struct{}
}

// startPrometheus starts it on a free loopback port, with the repository's configuration for a target and shortened intervals.
func startPrometheus(t *testing.T, program, target string) *promServer {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"prometheus.yml", "alerts.yml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", name))
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte("scrape_interval: 15s"), []byte("scrape_interval: 200ms\n  evaluation_interval: 200ms"))
		text = bytes.ReplaceAll(text, []byte("localhost:7070"), []byte(target))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	p := &promServer{t: t, url: "http://" + address, output: &bytes.Buffer{}, ended: make(chan struct{})}
	cmd := exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = p.output, p.output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // it was terminated
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-p.ended:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			<-p.ended
		}
	})
	return p
}

// until waits for a condition.
func (p *promServer) until(what string, there func() bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), scrapePatience)
	defer cancel()
	for !there() {
		select {
		case <-p.ended:
			p.t.Fatalf("Prometheus ended: %s", p.output)
		case <-ctx.Done():
			p.t.Fatalf("Prometheus does not have %s", what)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// ask makes a call of its API. If it does not answer yet, answer is unchanged.
func (p *promServer) ask(path string, query url.Values, answer any) {
	p.t.Helper()
	response, err := http.Get(p.url + path + "?" + query.Encode())
	if err != nil {
		return
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return
	}
	if err := json.Unmarshal(text, answer); err != nil {
		p.t.Fatalf("%s: %v: %s", path, err, text)
	}
}

// value returns the result of a query for one series; 0 if there is none.
func (p *promServer) value(query string) (v float64) {
	p.t.Helper()
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	p.ask("/api/v1/query", url.Values{"query": {query}}, &answer)
	if len(answer.Data.Result) == 1 {
		_, _ = fmt.Sscan(fmt.Sprint(answer.Data.Result[0].Value[1]), &v) // a number in a string
	}
	return v
}

// names returns those of all series.
func (p *promServer) names() []string {
	p.t.Helper()
	var answer struct{ Data []string }
	p.ask("/api/v1/label/__name__/values", nil, &answer)
	return answer.Data
}
