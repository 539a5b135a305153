package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/watch/dashboard"
	"github.com/tierml/tierml/watch/status"
)

// The dashboard of a run in progress: from the list to the run by its link; the page refreshes itself, keeps what its reader has opened,
// fits wide and narrow screens, and always shows the journal's figures.
func TestDashboard(t *testing.T) {
	b := openTab(t)
	defer func() { b.t = t }()
	for _, width := range []int{1280, 390, 360} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			b.t, b.said = t, nil
			story := journaltest.New(1).Entries
			run := begin(t, story[:len(story)/2])
			server := serve(t, filepath.Dir(run.dir), atEndOf(t, story[:len(story)/2]))
			b.open(server, width)
			b.until("the run in the list", `document.querySelector("table.list td")?.innerText.trim() === "running" && document.querySelector("table.list tbody a") !== null`)
			checkFits(b, width)
			b.picturesOf("dashboard-list", width)
			b.eval(`(document.querySelector("table.list tbody a").click(), true)`, new(bool))
			b.until("the run's page", `document.querySelector("section[aria-label=Now]") !== null`)
			checkFits(b, width)
			checkCharts(b)
			b.until("the stage", `document.querySelector("section[aria-label=Now]").innerText.includes("Stage")`)
			b.picturesOf("dashboard-run", width)
			b.checkReckoned(run.dir, story[len(story)/2-1].T)

			b.eval(`(document.querySelector("details summary").click(), window.notLoadedAnew = true)`, new(bool))
			run.goOn(t, story[len(story)/2:])
			want := report(t, story)
			b.until("the end of the run", `document.querySelector(".outcome").innerText === "finished"`)
			checkFigures(b, want)
			b.checkReckoned(run.dir, want.Run.AsOf)
			var kept bool
			b.eval(`window.notLoadedAnew === true && document.querySelector("details").open`, &kept)
			if !kept {
				t.Error("the page was loaded anew, or closed what was open")
			}
			if len(b.said) > 0 {
				t.Errorf("the page complains: %s", b.said)
			}
		})
	}
}

// picturesOf saves a picture in TIERML_PICTURES, if it is set.
func (b *tab) picturesOf(name string, width int) {
	if folder := os.Getenv("TIERML_PICTURES"); folder != "" {
		fail(b.t, os.MkdirAll(folder, 0o755))
		b.picture(filepath.Join(folder, fmt.Sprintf("%s-%d.png", name, width)))
	}
}

// run is a run in progress: a process holds its directory.
type run struct {
	dir    string
	holder *os.File
}

func begin(t *testing.T, entries []journal.Entry) *run {
	t.Helper()
	r := &run{dir: filepath.Join(t.TempDir(), "story-1")}
	fail(t, os.Mkdir(r.dir, 0o755))
	var err error
	r.holder, err = os.Open(r.dir)
	fail(t, err)
	t.Cleanup(func() { _ = r.holder.Close() })
	fail(t, syscall.Flock(int(r.holder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	r.write(t, entries)
	return r
}

func (r *run) write(t *testing.T, entries []journal.Entry) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(r.dir, rundir.JournalFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	fail(t, err)
	lines := json.NewEncoder(f)
	for _, e := range entries {
		fail(t, lines.Encode(e))
	}
	fail(t, f.Close())
}

// goOn writes the rest and ends the run.
func (r *run) goOn(t *testing.T, entries []journal.Entry) {
	t.Helper()
	r.write(t, entries)
	fail(t, r.holder.Close())
}

// atEndOf returns the wall-clock time of the last entry.
func atEndOf(t *testing.T, entries []journal.Entry) time.Time {
	t.Helper()
	s := status.New()
	for _, e := range entries {
		s.Feed(e)
	}
	return s.Mapping.WallAt(s.Now)
}

func serve(t *testing.T, root string, now time.Time) (url string) {
	t.Helper()
	board := dashboard.New(root, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { board.Run(ctx) })
	server := httptest.NewServer(board.Handler())
	t.Cleanup(func() {
		server.Close()
		cancel()
		following.Wait()
	})
	return server.URL
}

func report(t *testing.T, entries []journal.Entry) *cost.Report {
	t.Helper()
	var ledger cost.Ledger
	for _, e := range entries {
		fail(t, ledger.Add(e))
	}
	r, err := ledger.Report(ledger.AsOf())
	fail(t, err)
	return r
}
