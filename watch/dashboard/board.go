// Package dashboard shows runs in progress: pages for a browser, JSON for programs, metrics for Prometheus. It reads the journals below a
// directory, so it runs in any process, can be started and stopped at any time, and shows what the run's report will say.
//
// It shows runs and does not know how they are made. Behind a token its pages also stop, scale and drill them, by Acts.
package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/watch/status"
)

// look is the interval at which the directory is searched for new runs and running runs are read.
const look = time.Second

// atOnce bounds the runs that are read from the beginning at the same time.
const atOnce = 8

// Board follows the runs below a directory.
type Board struct {
	root string
	log  *slog.Logger
	now  func() time.Time

	manager func(*http.Request) Manager                           // nil if no job server manages the runs
	rights  func(r *http.Request, s Summary) (sees, changes bool) // nil = every client may see and change everything
	shown   func(text string) string                              // replaces private parts of runs' files and settings
	acts    Acts
	listed  kept
	swept   kept
	hosted  kept
	places  chan struct{} // of runs that are being read for the first time

	wholeMu sync.Mutex
	whole   []*run // ended runs that are completely in memory, the last used at the end

	mu   sync.Mutex
	runs map[string]*run // by the name of the directory
}

// ManagedBy adds a job server's information about its jobs to the list (client nil: for metrics, about all), and limits which runs a client
// sees and changes; with nil rights, everything. Call it before the board serves.
func (b *Board) ManagedBy(says func(*http.Request) Manager, rights func(r *http.Request, s Summary) (sees, changes bool)) {
	b.manager, b.rights = says, rights
}

// Shows filters files and settings of runs through shown. Call it before the board serves.
func (b *Board) Shows(shown func(text string) string) { b.shown = shown }

// may returns whether a client may see and change a run.
func (b *Board) may(r *http.Request, s Summary) (sees, changes bool) {
	if b.rights == nil {
		return true, true
	}
	return b.rights(r, s)
}

// New returns an empty board; Run fills it. Now is the wall clock.
func New(root string, now func() time.Time, log *slog.Logger) *Board {
	return &Board{root: root, log: log, now: now, shown: func(text string) string { return text }, places: make(chan struct{}, atOnce), runs: map[string]*run{}}
}

// run is a run that is followed. It is reread if it continues after its end.
type run struct {
	dir   string
	shown kept

	mu     sync.Mutex
	lines  int            // read
	before int            // lines of the process before: with no more the one that holds the run has not begun
	status *status.Status // nil if it has ended and was not used recently: brief has what lists need
	brief  *Summary
	start  journal.StartDetails // kept with it
	counts *counts
	book   *desk.Reader     // of slots, for a run of shared hosts
	tests  []cost.LossPoint // nil = not requested
	going  bool
	caught bool // everything written so far has been read
	// written is when an ended run's journal was last written to.
	written time.Time
	err     error
	follow  context.CancelFunc
}

func newRun(dir string, going bool) *run {
	return &run{dir: dir, status: status.New(), counts: newCounts(filepath.Base(dir)), book: desk.NewReader(dir), going: going, follow: func() {}}
}

// Run follows until the context ends.
func (b *Board) Run(ctx context.Context) {
	var following sync.WaitGroup
	defer following.Wait()
	for {
		b.lookAround(ctx, &following)
		select {
		case <-ctx.Done():
			return
		case <-time.After(look):
		}
	}
}

// lookAround begins to follow running or unread runs, and forgets removed ones.
func (b *Board) lookAround(ctx context.Context, following *sync.WaitGroup) {
	dirs, err := runs.List(b.root)
	if err != nil {
		b.log.Warn("runs cannot be listed", "error", err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	there := map[string]bool{}
	for _, dir := range dirs {
		name := filepath.Base(dir)
		there[name] = true
		known := b.runs[name]
		if known != nil && (known.followed() || !rundir.Held(dir)) {
			continue
		}
		r := newRun(dir, true)
		if known != nil {
			r.before, _ = known.linesRead()
		}
		b.runs[name] = r
		ctx, cancel := context.WithCancel(ctx)
		r.follow = cancel
		following.Go(func() { b.read(ctx, r) })
	}
	for name, r := range b.runs {
		if !there[name] {
			r.follow()
			delete(b.runs, name)
		}
	}
}

// name returns the name of the run's directory.
func (r *run) name() string { return filepath.Base(r.dir) }

// link returns the link to the run's page.
func (r *run) link() string { return "/runs/" + url.PathEscape(r.name()) }

// linesRead returns the number of lines read, and whether more may come.
func (r *run) linesRead() (lines int, going bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines, r.going
}

func (r *run) followed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.going
}

// read follows a run's journal until it is no longer being written.
func (b *Board) read(ctx context.Context, r *run) {
	select {
	case b.places <- struct{}{}:
	case <-ctx.Done():
		return
	}
	leave := sync.OnceFunc(func() { <-b.places })
	defer leave()
	err := runs.Follow(ctx, r.dir, r.take, func() {
		leave()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.caught = true
	})
	defer b.remember(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.going, r.caught = false, true
	if info, err := os.Stat(filepath.Join(r.dir, rundir.JournalFile)); err == nil {
		r.written = info.ModTime()
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		r.err = err
		b.log.Warn("a journal cannot be read", "run", filepath.Base(r.dir), "error", err)
	}
}

// wholeAtOnce is the number of ended runs kept completely in memory; for the others lists and metrics remain, and their journals are reread
// on request.
const wholeAtOnce = 16

// remember marks an ended run as last used, and drops another one.
func (b *Board) remember(r *run) {
	b.wholeMu.Lock()
	defer b.wholeMu.Unlock()
	b.whole = append(slices.DeleteFunc(b.whole, func(o *run) bool { return o == r }), r)
	for len(b.whole) > wholeAtOnce {
		b.whole[0].shrink(b.now())
		b.whole = slices.Delete(b.whole, 0, 1)
	}
}

// shrink drops everything about an ended run except what lists and metrics need.
func (r *run) shrink(now time.Time) {
	brief := r.summary(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.going && r.status != nil {
		r.brief, r.start, r.status = &brief, r.status.Start, nil
		r.shown.forget()
	}
}

func (r *run) take(e journal.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines++
	r.status.Feed(e)
	r.counts.add(e, r.status.Mapping)
}

// find returns a run whose journal has been read once.
func (b *Board) find(name string) *run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.runs[name]
}

// all returns the runs in their order.
func (b *Board) all() []*run {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*run
	for _, name := range slices.SortedFunc(maps.Keys(b.runs), runs.Compare) {
		out = append(out, b.runs[name])
	}
	return out
}
