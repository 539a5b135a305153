package browser

import (
	"bufio"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/test/reckon"
	"github.com/tierml/tierml/watch/dashboard"
)

// Playwright clicks through the dashboard, and axe-core examines every page (clicks.mjs lists what): a running run, an ended one, a long
// one, a damaged one, and a hundred small ones.
func TestClicks(t *testing.T) {
	program, modules := os.Getenv("TIERML_CHROMIUM"), os.Getenv("TIERML_PLAYWRIGHT")
	if program == "" || modules == "" {
		t.Skip("TIERML_CHROMIUM and TIERML_PLAYWRIGHT do not name a browser and npm's playwright-core and axe-core; run: make test-browser")
	}
	chromium, err := exec.LookPath(program)
	fail(t, err)
	root, story := t.TempDir(), journaltest.New(1).Entries
	half := len(story) / 2
	inRoot(t, root, "ended-1", story)
	inRoot(t, root, "long-1", journaltest.Long(1, 30))
	inRoot(t, root, "damaged-1", story[:400])
	bad, err := os.OpenFile(filepath.Join(root, "damaged-1", rundir.JournalFile), os.O_APPEND|os.O_WRONLY, 0)
	fail(t, err)
	_, err = bad.WriteString("rubbish\n")
	fail(t, err)
	fail(t, bad.Close())
	for i := range 100 {
		inRoot(t, root, fmt.Sprintf("small-%d", i+1), story[:40+i])
	}
	now := inRoot(t, root, "now-1", story[:half])
	now.holder, err = os.Open(now.dir)
	fail(t, err)
	defer now.holder.Close()
	fail(t, syscall.Flock(int(now.holder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	url := serve(t, root, atEndOf(t, story[:half]))

	pictures := ""
	if folder := os.Getenv("TIERML_PICTURES"); folder != "" {
		pictures = folder
		fail(t, os.MkdirAll(folder, 0o755))
	}
	node := exec.Command("node", "clicks.mjs", url, serveKept(t), modules, chromium, pictures)
	node.Stderr = os.Stderr
	said, err := node.StdoutPipe()
	fail(t, err)
	fail(t, node.Start())
	var writing sync.WaitGroup
	ended := make(chan struct{})
	done := false
	for lines := bufio.NewScanner(said); lines.Scan(); {
		t.Log(lines.Text())
		done = done || lines.Text() == "all steps done"
		if lines.Text() == "go on" {
			writing.Go(func() { now.trickle(t, story[half:len(story)-40], ended) })
		}
	}
	close(ended)
	writing.Wait()
	if err := node.Wait(); err != nil || !done {
		t.Errorf("the clicks ended with %v", err)
	}
}

// serveKept serves the list of a job server with jobs in every state, near its limits.
func serveKept(t *testing.T) (url string) {
	t.Helper()
	k := dashboard.Manager{Running: 2, MaxRunning: 2, Queued: 1, MaxQueued: 100, Spent: 45 * market.Dollar, Budget: 50 * market.Dollar,
		Rate: 4 * market.Dollar, PerHour: 3 * market.Dollar, Held: "the jobs of the job server cost $4.00 an hour, above its limit, $3.00"}
	for i, state := range []string{"running", "stopping", "queued", "finished", "failed", "stopped", "interrupted", "killed"} {
		j := dashboard.Row{Summary: dashboard.Summary{Run: fmt.Sprintf("job-%d", i+1), Job: "job", App: "mf", State: state, Spent: "5.5", Saved: "-1.25"}}
		if state == "queued" {
			j.Place, j.Spent, j.Saved = 1, "", ""
		} else {
			j.Began, j.Clock, j.Clocks, j.Why = journaltest.Began, 17, 400, "why "+state
		}
		k.Jobs = append(k.Jobs, j)
	}
	board := dashboard.New(t.TempDir(), time.Now, slog.New(slog.DiscardHandler))
	board.ManagedBy(func(*http.Request) dashboard.Manager { return k }, nil)
	server := httptest.NewServer(board.Handler())
	t.Cleanup(server.Close)
	return server.URL
}

// inRoot writes a run's journal.
func inRoot(t *testing.T, root, name string, entries []journal.Entry) *run {
	t.Helper()
	r := &run{dir: filepath.Join(root, name)}
	fail(t, os.Mkdir(r.dir, 0o755))
	r.write(t, entries)
	return r
}

// trickle writes lines one after the other until they or the clicks are finished.
func (r *run) trickle(t *testing.T, entries []journal.Entry, ended <-chan struct{}) {
	for len(entries) > 0 {
		n := min(10, len(entries))
		r.write(t, entries[:n])
		entries = entries[n:]
		select {
		case <-ended:
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// The figures of a run's page, as the browser shows them, are those that independent arithmetic computes from its journal.
func (b *tab) checkReckoned(dir string, asOf time.Time) {
	b.t.Helper()
	var page reckon.Page
	b.eval(`(() => {
		const text = (e) => e.textContent.replace(/\s+/g, " ").trim(), cards = {}, tables = {};
		for (const card of document.querySelectorAll("dl.cards > div")) cards[text(card.querySelector("dt"))] = [...card.querySelectorAll("dd")].map(text).join(" ");
		for (const frame of document.querySelectorAll("[role=region][aria-label]"))
			if (frame.querySelector("table")) tables[frame.getAttribute("aria-label")] = [...frame.querySelectorAll("tbody tr")].map(r => [...r.cells].map(text));
		return {Cards: cards, Tables: tables};
	})()`, &page)
	lines, err := os.Open(filepath.Join(dir, rundir.JournalFile))
	fail(b.t, err)
	defer lines.Close()
	figures, err := reckon.Of(lines, asOf)
	fail(b.t, err)
	if len(page.Cards) < 4 || len(page.Tables) < 5 {
		b.t.Errorf("only %d cards and %d tables are shown", len(page.Cards), len(page.Tables))
	}
	for _, wrong := range page.Differences(figures) {
		b.t.Error(wrong)
	}
}
