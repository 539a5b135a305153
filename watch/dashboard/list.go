package dashboard

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tierml/tierml/cost/page"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/words"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/watch/shared"
	"github.com/tierml/tierml/watch/status"
)

//go:embed compare.html done.html events.html hosts.html list.html logs.html sweep.html trouble.html
var texts embed.FS

var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(functions).ParseFS(texts, "*.html"))
})

var functions = template.FuncMap{
	"loss": func(v *float64) string {
		if v == nil {
			return ""
		}
		return fmt.Sprintf("%.4f", *v)
	},
	"money":  money,
	"pool":   words.Pool,
	"unit":   journal.Unit,
	"ended":  words.Ended,
	"length": words.Duration,
	"amount": func(v market.USD) float64 { return float64(v) / float64(market.Dollar) },
	"stamp":  func(t time.Time) string { return page.Stamp(t)[:16] },
	"second": page.Stamp,
	"iso":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"path":   url.PathEscape,
	"runOf":  shared.RunOf,
}

// frame is common to all pages.
type frame struct {
	Style   template.CSS
	Script  template.JS
	Refresh int64 // milliseconds; 0 = no refresh
}

func newFrame(live bool) frame {
	f := frame{Style: template.CSS(page.Style)} //nolint:gosec // our own file
	if live {
		f.Script, f.Refresh = template.JS(page.LiveScript), refresh.Milliseconds() //nolint:gosec // our own file
	}
	return f
}

// show renders a page; on errors it sends no partial page.
func show(w http.ResponseWriter, r *http.Request, name string, v any) {
	var b bytes.Buffer
	if err := pages().ExecuteTemplate(&b, name, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	pack("text/html; charset=utf-8", b.Bytes()).send(w, r)
}

// trouble shows an error, on a page with a way back.
func trouble(w http.ResponseWriter, status int, title, what string) {
	troubleOf(w, nil, status, title, what)
}

// troubleOf is trouble with the page of a run, to which it leads back; nil = none.
func troubleOf(w http.ResponseWriter, of *run, status int, title, what string) {
	var b bytes.Buffer
	name, link := "", ""
	if of != nil {
		name, link = of.name(), of.link()
	}
	if err := pages().ExecuteTemplate(&b, "trouble.html", struct {
		frame
		Title, What, Run, Link string
	}{newFrame(false), title, what, name, link}); err != nil {
		http.Error(w, what, status)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Clean(b.Bytes())) // the client may have disconnected
}

// rowsAtATime is the number of runs on a page of the list.
const rowsAtATime = 50

// Manager is a job server's information about its jobs, in addition to the list.
type Manager struct {
	Running, MaxRunning int
	Queued, MaxQueued   int
	Spent, Rate         market.USD        // of all jobs: so far, and per hour now
	Budget, PerHour     market.USD        // the limits; 0 = none
	Held                string            // why waiting jobs are not started
	Jobs                []Row             // all, including those without a journal, in order
	Granted             map[string]string // a scheduler's reasons for running jobs' slots
	Sweeps              []Sweep           // the newest first
	Grants              *Grants           // nil = no scheduler
	Groups              map[string]GroupLimits
	Deleted             []Summary // they still count in the spending of days, groups and users
}

// Grants are a scheduler's last decisions.
type Grants struct {
	Workers int           // granted to all jobs
	Paused  int           // jobs that lost all their workers
	Longest time.Duration // since the arrival of the job that has waited longest for its first workers, in wall-clock time
}

// Row is a run of a job server. State and Why of its Summary are the job's.
type Row struct {
	Summary
	Place int // in the queue, from 1
}

// listView is the data of list.html.
type listView struct {
	frame
	Root      string // empty = not shown
	Manager   *Manager
	Hosts     bool // there are shared hosts
	Attention []attention
	Days      []day
	Shares    []*share
	Month     string // the month of Shares
	Rows      []Row
	Of, All   int
	Replayed  string // which part of the job server's spending is of replayed markets
	Archives  bool   // archived runs are listed
	Archived  int    // runs
	Q         string
	Filtered  bool
	Facets    []facet // those with a choice
	Columns   []column
	From, To  int
	pager
}

// facet is a property of runs by which the list is filtered.
type facet struct {
	Key, Label, Is string // Is is the chosen value; empty = any
	Values         []counted
}

// counted is a value of a facet, and its number of runs.
type counted struct {
	Value, Link string
	Runs        int
}

// Words is the count with its value, in plural where that is a noun: "2 gangs", but "2 failed" and "2 training".
func (c counted) Words() string {
	switch c.Value {
	case journal.Single, journal.Gang, journal.Array, journal.Sweep:
		return words.Number(c.Runs, c.Value)
	case journal.DiLoCo:
		return fmt.Sprintf("%d DiLoCo", c.Runs)
	}
	return fmt.Sprintf("%d %s", c.Runs, c.Value)
}

// facets are the properties in their order, each a parameter of the list's address.
var facets = []struct {
	key, label string
	of         func(Row) string
}{
	{"state", "State", func(r Row) string { return r.State }},
	{"kind", "Kind", func(r Row) string { return r.Kind }},
	{"group", "Group", func(r Row) string { return r.Group }},
	{"user", "User", func(r Row) string { return r.User }},
}

// filter keeps the rows that contain the words of q and have the chosen values, and counts the values of all.
func (v *listView) filter(r *http.Request, all []Row) {
	v.Q = r.FormValue("q")
	chosen := make([]string, len(facets))
	counts := make([]map[string]int, len(facets))
	for i, f := range facets {
		chosen[i], counts[i] = r.FormValue(f.key), map[string]int{}
		v.Filtered = v.Filtered || chosen[i] != ""
	}
	v.Filtered = v.Filtered || v.Q != ""
	for _, j := range all {
		fits := strings.Contains(strings.ToLower(j.Run+" "+j.App), strings.ToLower(v.Q))
		for i, f := range facets {
			if value := f.of(j); value != "" {
				counts[i][value]++
			}
			fits = fits && (chosen[i] == "" || chosen[i] == f.of(j))
		}
		if fits {
			v.Rows = append(v.Rows, j)
		}
	}
	for i, f := range facets {
		shown := facet{Key: f.key, Label: f.label, Is: chosen[i]}
		for _, value := range slices.SortedFunc(maps.Keys(counts[i]), func(a, b string) int { return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(a, b)) }) {
			shown.Values = append(shown.Values, counted{value, "/?" + url.Values{f.key: {value}}.Encode(), counts[i][value]})
		}
		if i == 0 || len(shown.Values) > 1 || shown.Is != "" {
			v.Facets = append(v.Facets, shown)
		}
	}
}

// attention is a run that needs attention, and why.
type attention struct{ Run, Why string }

// day is the cost and saving of the runs that began on a day.
type day struct {
	Day          string
	Runs         int
	Spent, Saved market.USD
	Replayed     market.USD // spent on replayed markets, not real money
	Bar          float64    // percent of the most expensive day shown
}

// daysShown is the number of days with a line.
const daysShown = 7

// needing collects what needs attention: the newest runs that failed or are paused.
func (v *listView) needing(all []Row) {
	for _, j := range all {
		switch {
		case j.State == "failed" || j.State == "killed":
			v.Attention = append(v.Attention, attention{j.Run, cmp.Or(j.Why, map[string]string{"killed": "its controller is gone; `tierml run --resume` continues it"}[j.State], "it failed")})
		case j.State == status.Paused:
			v.Attention = append(v.Attention, attention{j.Run, cmp.Or(j.Why, "it is paused")})
		}
	}
	if n := len(v.Attention) - attentionShown; n > 0 { // the newest are last in the list
		v.Attention = v.Attention[n:]
	}
	slices.Reverse(v.Attention)
}

// replayedPart returns which part of the runs' dollars is not real, in words; empty = none.
func replayedPart(rows []Row) string {
	replayed, paid := false, false
	for _, j := range rows {
		replayed = replayed || j.Replayed && dollars(j.Spent) > 0
		paid = paid || !j.Replayed && dollars(j.Spent) > 0
	}
	switch {
	case replayed && paid:
		return ", partly replayed"
	case replayed:
		return ", replayed"
	}
	return ""
}

// addDays sums up the cost of the last days' runs. Of shared hosts only the idle share counts: jobs pay the rest.
func (v *listView) addDays(all []Row) {
	byDay, slots := map[string]*day{}, map[bool]market.USD{}
	for _, j := range all {
		if j.Slots {
			slots[j.Replayed] += dollars(j.Spent)
		}
	}
	for _, j := range all {
		if j.Started.IsZero() {
			continue
		}
		key := j.Started.UTC().Format("2006-01-02")
		d := byDay[key]
		if d == nil {
			d = &day{Day: key}
			byDay[key] = d
		}
		d.Runs++
		spent := dollars(j.Spent)
		if j.Kind == journal.Hosts {
			paid := min(spent, slots[j.Replayed])
			spent, slots[j.Replayed] = spent-paid, slots[j.Replayed]-paid
		}
		if j.Replayed {
			d.Replayed += spent
			continue
		}
		d.Spent, d.Saved = d.Spent+spent, d.Saved+dollars(j.Saved)
	}
	days := slices.Collect(maps.Keys(byDay))
	slices.Sort(days)
	slices.Reverse(days)
	var most market.USD
	for _, key := range days[:min(len(days), daysShown)] {
		v.Days = append(v.Days, *byDay[key])
		most = max(most, byDay[key].Spent)
	}
	for i := range v.Days {
		if most > 0 {
			v.Days[i].Bar = 100 * float64(v.Days[i].Spent) / float64(most)
		}
	}
}

// attentionShown is the number of runs needing attention with a line.
const attentionShown = 5

// column is a head that sorts.
type column struct {
	Title, Link, Sorted string // Sorted is "ascending", "descending" or empty
	Number              bool
}

// sorts are the columns in order; nil means less is better.
var sorts = []struct {
	key, title string
	number     bool
	compare    func(a, b Row) int
}{
	{"run", "run", false, func(a, b Row) int { return runs.Compare(a.Run, b.Run) }},
	{"state", "state", false, func(a, b Row) int { return cmp.Compare(a.State, b.State) }},
	{"kind", "kind", false, func(a, b Row) int { return cmp.Compare(a.Kind, b.Kind) }},
	{"clock", "progress", true, func(a, b Row) int { return cmp.Compare(a.Clock, b.Clock) }},
	{"left", "time left", true, func(a, b Row) int { return cmp.Compare(a.WallLeft, b.WallLeft) }},
	{"spent", "spent", true, func(a, b Row) int { return cmp.Compare(dollars(a.Spent), dollars(b.Spent)) }},
	{"end", "at the end", true, func(a, b Row) int { return cmp.Compare(dollars(a.Expected), dollars(b.Expected)) }},
	{"hour", "per hour", true, func(a, b Row) int { return cmp.Compare(dollars(a.PerHour), dollars(b.PerHour)) }},
	{"saved", "saved", true, func(a, b Row) int { return cmp.Compare(dollars(a.Saved), dollars(b.Saved)) }},
	{"machines", "machines", true, func(a, b Row) int { return cmp.Compare(a.Reliable+a.Transient, b.Reliable+b.Transient) }},
	{"test", "loss", true, func(a, b Row) int { return cmp.Compare(value(a.Loss()), value(b.Loss())) }},
	{"began", "began", false, func(a, b Row) int { return a.Started.Compare(b.Started) }},
}

func value(v *float64) float64 {
	if v == nil {
		return -1
	}
	return *v
}

func dollars(text string) market.USD {
	v, _ := market.ParseUSD(text) // unknown = 0
	return v
}

func (b *Board) list(w http.ResponseWriter, r *http.Request) {
	create := func() (*content, error) {
		var text bytes.Buffer
		if err := pages().ExecuteTemplate(&text, "list.html", b.listView(r)); err != nil {
			return nil, err
		}
		return pack("text/html; charset=utf-8", text.Bytes()), nil
	}
	is, err := b.listed.get(access.ClientOf(r.Context()).ID()+"?"+r.URL.RawQuery, false, create)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	is.send(w, r)
}

func (b *Board) listView(r *http.Request) listView {
	v := listView{frame: newFrame(true)}
	var all []Row
	if v.Root = b.root; b.manager != nil {
		v.Root = "" // of the job server's host
		k := b.manager(r)
		v.Manager, all = &k, k.Jobs
	} else {
		for _, s := range b.seen(r) {
			all = append(all, Row{Summary: s})
		}
	}
	paid := slices.Clip(all) // including archived and deleted ones
	if v.Manager != nil {
		for _, s := range v.Manager.Deleted {
			paid = append(paid, Row{Summary: s})
		}
	}
	v.Replayed = replayedPart(paid)
	v.addShares(paid, b.now())
	v.addDays(paid)
	v.Archives = r.FormValue("archived") != ""
	all = slices.DeleteFunc(all, func(j Row) bool {
		archived := rundir.Archived(filepath.Join(b.root, j.Run))
		if archived {
			v.Archived++
		}
		return archived != v.Archives
	})
	v.All, v.Hosts = len(all), len(b.sharing()) > 0
	v.needing(all)
	v.filter(r, all)
	v.sort(r)
	v.Of = len(v.Rows)
	v.pager = newPager(r, v.Of, rowsAtATime)
	v.Rows = v.Rows[v.first:v.last]
	v.From, v.To = min(v.first+1, v.Of), v.last
	return v
}

// rank orders states by interest.
var rank = map[string]int{status.Running: -4, status.Waiting: -3, status.Paused: -2, "queued": -1}

// byInterest returns the default order: running, waiting by position, and the others, the newest first.
func byInterest(a, b Row) int {
	return cmp.Or(cmp.Compare(rank[a.State], rank[b.State]), cmp.Compare(a.Place, b.Place), b.Started.Compare(a.Started), runs.Compare(b.Run, a.Run))
}

// sort sorts the rows by the parameter sort: a column, with a minus for descending order.
func (v *listView) sort(r *http.Request) {
	by, down := strings.CutPrefix(r.FormValue("sort"), "-")
	slices.SortStableFunc(v.Rows, byInterest)
	for _, s := range sorts {
		c := column{Title: s.title, Number: s.number, Link: withQuery(r, "sort", s.key)}
		if s.key == by {
			c.Sorted = "ascending"
			c.Link = withQuery(r, "sort", "-"+s.key)
			if down {
				c.Sorted, c.Link = "descending", withQuery(r, "sort", s.key)
			}
			slices.SortStableFunc(v.Rows, func(a, b Row) int {
				if down {
					a, b = b, a
				}
				return s.compare(a, b)
			})
		} else if s.number { // numbers start descending
			c.Link = withQuery(r, "sort", "-"+s.key)
		}
		v.Columns = append(v.Columns, c)
	}
}
