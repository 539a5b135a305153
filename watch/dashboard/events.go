package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/cost"
	"github.com/tierml/tierml/cost/page"
)

// eventsAtATime is the number of events on a page.
const eventsAtATime = 200

// eventsView is the data of events.html.
type eventsView struct {
	frame
	Run, Link string
	Q, Kind   string
	Kinds     []string
	Shown     []cost.Event // the newest first
	Of, All   int          // that match; in total
	From, To  int          // counted from the newest
	pager
}

// events serves a run's events that contain the words of q, and are of a kind.
func (b *Board) events(w http.ResponseWriter, request *http.Request) {
	r := b.named(w, request)
	if r == nil {
		return
	}
	report, live, err := b.reportOf(request.Context(), r)
	if err != nil {
		unavailable(w, r, err)
		return
	}
	v := eventsView{frame: newFrame(live.Running), Run: r.name(), Link: r.link(), Q: request.FormValue("q"),
		Kind: request.FormValue("kind"), All: len(report.Events)}
	var match []cost.Event
	for _, e := range slices.Backward(report.Events) {
		if !slices.Contains(v.Kinds, e.Kind) {
			v.Kinds = append(v.Kinds, e.Kind)
		}
		if (v.Kind == "" || e.Kind == v.Kind) && mentions(e, v.Q) {
			match = append(match, e)
		}
	}
	slices.Sort(v.Kinds)
	v.Of = len(match)
	v.pager = newPager(request, v.Of, eventsAtATime)
	v.Shown = match[v.first:v.last]
	v.From, v.To = min(v.first+1, v.Of), v.last
	show(w, request, "events.html", v)
}

// mentions reports whether an event contains all words: in its text, its time, or the machines it is about.
func mentions(e cost.Event, words string) bool {
	if words == "" {
		return true
	}
	text := strings.ToLower(e.Kind + " " + e.Text + " " + e.Why + " " + page.Stamp(e.T) + " " + strings.Join(e.Instances, " "))
	for word := range strings.FieldsSeq(strings.ToLower(words)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// pager splits a long list into pages.
type pager struct {
	first, last   int // of the list
	Newer, Older  string
	Number, Pages int
}

func newPager(r *http.Request, length, size int) pager {
	pages := max(1, (length+size-1)/size)
	n, err := strconv.Atoi(r.FormValue("page"))
	if err != nil {
		n = 1
	}
	n = min(max(n, 1), pages)
	p := pager{first: (n - 1) * size, last: min(n*size, length), Number: n, Pages: pages}
	if n > 1 {
		p.Newer = withQuery(r, "page", strconv.Itoa(n-1))
	}
	if n < pages {
		p.Older = withQuery(r, "page", strconv.Itoa(n+1))
	}
	return p
}

// withQuery returns the address of a request with one parameter changed, and without empty ones.
func withQuery(r *http.Request, name, value string) string {
	q := url.Values{}
	for key, values := range r.URL.Query() {
		if key != name && len(values) > 0 && values[0] != "" {
			q.Set(key, values[0])
		}
	}
	if value != "" {
		q.Set(name, value)
	}
	if len(q) == 0 {
		return r.URL.Path
	}
	return r.URL.Path + "?" + q.Encode()
}
