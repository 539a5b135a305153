package dashboard

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/page"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/journal"
)

// refresh is how often an open page is put anew.
const refresh = 2 * time.Second

// Handler serves
//
//	GET /                    the list of runs
//	GET /runs/NAME           a run's page
//	GET /api/runs            the list as JSON: an array of Summary
//	GET /api/runs/NAME       a run's report as JSON, as of now: what `tierml report -o json` prints
//	GET /metrics             for Prometheus
//
// It answers only requests that name this host by a loopback address: a web page somewhere else cannot have a browser
// read them. That is for a board on loopback; elsewhere Guarded serves behind a token.
func (b *Board) Handler() http.Handler { return access.LocalHost(b.Guarded()) }

// Guarded is Handler for whoever asks: access.Gate must stand before it.
func (b *Board) Guarded() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(b)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", b.list)
	mux.HandleFunc("GET /runs/{name}", b.page)
	mux.HandleFunc("GET /api/runs", b.listJSON)
	mux.HandleFunc("GET /api/runs/{name}", b.report)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return strict(mux)
}

// strict has browsers take nothing from elsewhere, and keep nothing.
func strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'")
		next.ServeHTTP(w, r)
	})
}

//go:embed list.html
var listText string

var listPage = template.Must(template.New("list").Funcs(template.FuncMap{
	"fixed": func(digits int, v float64) string { return fmt.Sprintf("%.*f", digits, v) },
	"loss": func(v *float64) string {
		if v == nil {
			return ""
		}
		return fmt.Sprintf("%.4f", *v)
	},
	"money": money,
	"stamp": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") },
}).Parse(listText))

// Summaries are the runs in their order, as of now.
func (b *Board) Summaries() []Summary {
	rows := []Summary{}
	for _, r := range b.all() {
		rows = append(rows, r.summary(b.now()))
	}
	return rows
}

func (b *Board) list(w http.ResponseWriter, _ *http.Request) {
	rows := b.Summaries()
	show(w, func(out *bytes.Buffer) error {
		return listPage.Execute(out, struct {
			Root    string
			Rows    []Summary
			Style   template.CSS
			Script  template.JS
			Refresh int64
		}{b.root, rows, template.CSS(page.Style), template.JS(page.LiveScript), refresh.Milliseconds()}) //nolint:gosec // our own files
	})
}

func (b *Board) listJSON(w http.ResponseWriter, _ *http.Request) { answer(w, b.Summaries()) }

func (b *Board) report(w http.ResponseWriter, r *http.Request) {
	if report, _ := b.reportOf(w, r); report != nil {
		answer(w, report)
	}
}

func (b *Board) page(w http.ResponseWriter, r *http.Request) {
	if report, live := b.reportOf(w, r); report != nil {
		show(w, func(out *bytes.Buffer) error { return page.WriteLive(out, report, live) })
	}
}

// reportOf makes the report of the run that a request names, as of now, or answers why not.
func (b *Board) reportOf(w http.ResponseWriter, request *http.Request) (*cost.Report, *page.Live) {
	name := request.PathValue("name")
	r := b.find(name)
	if r == nil {
		http.Error(w, fmt.Sprintf("there is no run %q", name), http.StatusNotFound)
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	report, err := r.status.Ledger.Report(r.asOf(b.now()))
	if err != nil {
		http.Error(w, fmt.Sprintf("run %s: %v", name, err), http.StatusServiceUnavailable)
		return nil, nil
	}
	if r.err != nil {
		report.Warnings = append(report.Warnings, r.err.Error())
	}
	return report, r.live(report.Run.AsOf)
}

// live needs the lock; nil when the run has ended in order.
func (r *run) live(now time.Time) *page.Live {
	s := r.status
	l := &page.Live{Runs: "/", Refresh: refresh, Running: r.state() == "running", Stage: s.Stage, Clock: s.Clock,
		Clocks: s.Start.Clocks, ClockSeconds: s.Seconds, PerHour: s.Ledger.Rate(now)}
	for _, g := range s.Groups() {
		l.Fleet = append(l.Fleet, page.Fleet{Tier: g.Tier, Pool: g.Pool, Price: g.Price, Bid: g.Bid, Joined: g.Joined,
			Starting: g.Starting, Leaving: g.Leaving})
	}
	if r.plan.Kind == journal.Plan {
		if d, err := r.plan.PlanDetails(); err == nil {
			l.Considered, l.ConsideredAt, l.ConsideredWhy = d.Pools, r.plan.T, r.plan.Why
		}
	}
	return l
}

func show(w http.ResponseWriter, write func(*bytes.Buffer) error) {
	var b bytes.Buffer // so that an error leaves no half a page
	if err := write(&b); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // whoever asked may be gone
}

func answer(w http.ResponseWriter, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n'))
}
