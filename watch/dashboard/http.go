package dashboard

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/page"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/watch/status"
)

// refresh is the interval at which an open page is refreshed.
const refresh = 2 * time.Second

// Handler serves
//
//	GET /                        the list of runs (list.go: q, state, sort, page)
//	GET /runs/NAME               a run's page
//	GET /runs/NAME/events        its events, filtered (events.go: q, kind, page)
//	GET /runs/NAME/logs          the end of a log (logs.go: of)
//	GET /runs/NAME/files/FILE    one of its files (files.go)
//	POST /runs/NAME/act          stop, scale, drill, archive or delete it, behind a token only (act.go)
//	GET /sweeps/NAME             the trials of a job server's sweep (sweep.go)
//	GET /api/sweeps/NAME         the same as JSON: a Sweep
//	GET /compare?run=A&run=B     two to eight runs side by side (compare.go)
//	GET /api/compare?run=A&run=B the same as JSON: an array of cost.Named
//	GET /hosts                   shared hosts with the jobs on them (hosts.go)
//	GET /api/hosts               the same as JSON: an array of shared.View
//	GET /api/runs                the list as JSON: an array of Summary
//	GET /api/runs/NAME           a run's report as JSON, as of now: what `tierml report -o json` prints
//	GET /metrics                 for Prometheus
//
// It answers only requests that name this host by a loopback address, so that foreign web pages cannot make a browser read them. That is
// for a board on loopback; elsewhere Guarded serves behind a token.
func (b *Board) Handler() http.Handler { return access.LocalHost(b.serve(false)) }

// Guarded is Handler behind access.Gate: clients with the token may also fetch models, and stop, scale and drill runs.
func (b *Board) Guarded() http.Handler { return b.serve(true) }

func (b *Board) serve(trusted bool) http.Handler {
	mux := http.NewServeMux()
	for pattern, page := range b.pages(trusted) {
		mux.Handle(pattern, page)
	}
	return strict(mux)
}

// Patterns lists the patterns of Guarded.
func (b *Board) Patterns() []string { return slices.Sorted(maps.Keys(b.pages(true))) }

func (b *Board) pages(trusted bool) map[string]http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(b)
	pages := map[string]http.Handler{"GET /metrics": promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})}
	for pattern, page := range map[string]http.HandlerFunc{
		"GET /{$}":                      b.list,
		"GET /runs/{name}":              func(w http.ResponseWriter, r *http.Request) { b.page(w, r, trusted) },
		"GET /runs/{name}/events":       b.events,
		"GET /runs/{name}/logs":         b.logs,
		"GET /runs/{name}/files/{file}": func(w http.ResponseWriter, r *http.Request) { b.file(w, r, trusted) },
		"GET /sweeps/{name}":            b.sweep,
		"GET /api/sweeps/{name}": func(w http.ResponseWriter, r *http.Request) {
			if s, found := b.sweepOf(w, r); found {
				answer(w, r, s)
			}
		},
		"GET /compare":         b.compare,
		"GET /api/compare":     b.compareJSON,
		"GET /hosts":           b.hostsPage,
		"GET /api/hosts":       b.hostsJSON,
		"GET /api/runs":        b.listJSON,
		"GET /api/runs/{name}": b.report,
		"GET /favicon.ico":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	} {
		pages[pattern] = page
	}
	if trusted {
		pages["POST /runs/{name}/act"] = http.HandlerFunc(b.act)
	}
	return pages
}

// Summaries returns the present runs in order.
func (b *Board) Summaries() []Summary {
	rows := []Summary{}
	for _, r := range b.all() {
		rows = append(rows, r.summary(b.now()))
	}
	views, _ := b.views(nil) // the page of hosts reports the error
	Place(rows, views...)
	return rows
}

func (b *Board) listJSON(w http.ResponseWriter, r *http.Request) { answer(w, r, b.seen(r)) }

// seen returns the runs that a client sees.
func (b *Board) seen(r *http.Request) []Summary {
	return slices.DeleteFunc(b.Summaries(), func(s Summary) bool {
		sees, _ := b.may(r, s)
		return !sees
	})
}

func (b *Board) report(w http.ResponseWriter, request *http.Request) {
	r := b.named(w, request)
	if r == nil {
		return
	}
	report, _, err := b.reportOf(request.Context(), r)
	if err != nil {
		unavailable(w, r, err)
		return
	}
	answer(w, request, report)
}

func (b *Board) page(w http.ResponseWriter, request *http.Request, trusted bool) {
	r := b.named(w, request)
	if r == nil {
		return
	}
	lines, going := r.linesRead()
	_, changes := b.may(request, r.summary(b.now()))
	granted := ""
	if b.manager != nil && going {
		granted = b.manager(request).Granted[r.name()]
	}
	is, err := r.shown.get(fmt.Sprint(pageKey(trusted, changes, going, lines), rundir.Archived(r.dir)), !going, func() (*content, error) {
		report, live, err := b.reportOf(request.Context(), r)
		if err != nil {
			return nil, err
		}
		live.Files, live.Granted = files(r.dir, trusted), granted
		if b.manager != nil {
			live.Resume = "" // resuming is up to the job server
		}
		if report.Programs != nil {
			live.Output = r.output(report.Programs, b.shown)
			if f := report.Failure; f != nil && f.Output == "" && live.Output != nil {
				f.Output = live.Output.Text // older journals do not have it
			}
		}
		switch {
		case trusted && changes && !live.Running:
			live.Acts = &page.Acts{Link: r.link() + "/act", Ended: true, Archived: rundir.Archived(r.dir), Delete: b.acts.Delete != nil}
		case trusted && changes:
			live.Acts = &page.Acts{Link: r.link() + "/act", Scale: live.Scales, Stop: b.acts.Stop != nil, Drill: b.acts.Drill != nil}
		}
		var text bytes.Buffer
		if err := page.WriteLive(&text, report, live); err != nil {
			return nil, err
		}
		return pack("text/html; charset=utf-8", text.Bytes()), nil
	})
	if err != nil {
		unavailable(w, r, err)
		return
	}
	is.send(w, request)
}

// pageKey returns the inputs of a cached page: for a running run, recent lines are good enough.
func pageKey(trusted, changes, going bool, lines int) string {
	if going {
		lines = -1
	}
	return fmt.Sprint(trusted, changes, lines)
}

// named returns the run that a request names and whose client may see it; otherwise it answers the request and returns nil.
func (b *Board) named(w http.ResponseWriter, request *http.Request) *run {
	name := request.PathValue("name")
	r := b.find(name)
	if r != nil {
		if sees, _ := b.may(request, r.summary(b.now())); !sees {
			r = nil
		}
	}
	if r == nil {
		trouble(w, http.StatusNotFound, "No such run", fmt.Sprintf("There is no run %q here.", name))
	}
	return r
}

func unavailable(w http.ResponseWriter, r *run, err error) {
	trouble(w, http.StatusServiceUnavailable, "Not now", fmt.Sprintf("The run %s cannot be shown: %v.", r.name(), err))
}

var errNothingYet = errors.New("its journal has no line yet")

// reportOf returns the report of a run that may have to be reread.
func (b *Board) reportOf(ctx context.Context, r *run) (*cost.Report, *page.Live, error) {
	report, live, err := r.report(b.now())
	if !errors.Is(err, errForgotten) {
		if err == nil {
			err = b.share(r, report, live)
		}
		return report, live, err
	}
	again, damage := readOnce(ctx, r.dir)
	if again == nil {
		return nil, nil, damage
	}
	again.err = damage
	if report, live, err = again.report(b.now()); err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	if r.status == nil {
		r.status = again.status // not shared with another goroutine
	}
	r.mu.Unlock()
	b.remember(r)
	return report, live, nil
}

var errForgotten = errors.New("it has to be read anew")

// report returns the present report of a run, and its live state if it is running.
func (r *run) report(now time.Time) (*cost.Report, *page.Live, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == nil {
		return nil, nil, errForgotten
	}
	if r.status.Began.IsZero() {
		return nil, nil, errors.Join(errNothingYet, r.err)
	}
	report, err := r.status.Ledger.Report(r.asOf(now))
	if err != nil {
		return nil, nil, err
	}
	if r.err != nil {
		report.Warnings = append(report.Warnings, r.err.Error())
	}
	report.Run.Outcome, report.Run.Why = r.status.State(r.going)
	return report, r.live(report), nil
}

// live requires the lock.
func (r *run) live(report *cost.Report) *page.Live {
	s, state, now := r.status, report.Run.Outcome, report.Run.AsOf
	l := &page.Live{Name: r.name(), Runs: "/", Refresh: refresh, Running: status.Active(state), Stage: s.Stage, Clock: s.Clock,
		Scales: s.Start.Reliable.Count > 0, Clocks: s.Start.Clocks, ClockSeconds: s.Seconds, Left: s.LeftText(), PerHour: s.Ledger.Rate(now), Events: r.link() + "/events", Logs: r.link() + "/logs"}
	if l.Running {
		if o, ok := s.Outlook(now); ok {
			l.CostLater = o.Cost()
			l.TimeLeft, l.TimeNotes = o.Time().Left, o.Time().Notes()
		}
		l.Budget = promiseOf(s.Start.Job).limits(report.Totals.Total, l.PerHour, state == status.Paused)
	}
	if state == status.Killed || state == journal.Failure || state == journal.Interrupted {
		l.Resume = terminal.ShellLine([]string{"tierml", "run", "--resume", r.dir})
	}
	for _, g := range s.Groups() {
		l.Fleet = append(l.Fleet, page.Fleet{Tier: g.Tier, Pool: g.Pool, Price: g.Price, Bid: g.Bid, Joined: g.Joined,
			Starting: g.Starting, Leaving: g.Leaving})
	}
	return l
}

func answer(w http.ResponseWriter, r *http.Request, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	pack("application/json", append(text, '\n')).send(w, r)
}
