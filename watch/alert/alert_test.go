package alert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
)

var wall = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// told returns the kinds in order of arrival.
func told(alerts []Alert) (kinds []string) {
	for _, a := range alerts {
		kinds = append(kinds, string(a.Kind))
	}
	return kinds
}

func TestStuck(t *testing.T) {
	w, at := NewWatch("demo-1"), 0.0
	var all []Alert
	feed := func(e journal.Entry, seconds float64) {
		at += seconds
		now := wall.Add(time.Duration(at * float64(time.Second)))
		all = append(all, w.Tick(now)...)
		all = append(all, w.Feed(e, now)...)
	}
	next := func(seconds float64) {
		feed(journal.Entry{Kind: journal.ClockDone, Clock: w.clock + 1, Seconds: seconds}, seconds)
	}
	feed(journal.Entry{Kind: journal.Start}, 0)
	for range 10 {
		next(10)
	}
	next(199) // a hiccup
	next(10)
	next(201)
	next(10)
	if got, want := told(all), []string{"stuck", "moving"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q: %+v", got, want, all)
	}
	if want := "no clock for 3m21s; after clock 12"; all[0].Why != want || all[0].Run != "demo-1" {
		t.Errorf("%+v, want %q", all[0], want)
	}
}

// A run that is stopped together with its watch is not stuck; but one whose machines have fallen silent together is.
func TestStuckOrStopped(t *testing.T) {
	w := NewWatch("x")
	w.Feed(journal.Entry{Kind: journal.Start}, wall)
	w.Away(time.Hour)
	if got := w.Tick(wall.Add(time.Hour + time.Minute)); got != nil {
		t.Errorf("stopped: %+v", got)
	}
	for i := range 2 {
		if got := w.Feed(journal.Entry{Kind: journal.Silence, To: journal.Waiting, Why: "17 of 18"}, wall.Add(time.Hour)); len(got) != 1-i || i == 0 && got[0].Kind != Stuck {
			t.Errorf("silent for the %d. time: %+v", i+1, got)
		}
	}
}

// A run with clocks of milliseconds is not stuck after a second; a run that never begins is stuck after a quarter of an hour.
func TestStuckHasItsLimits(t *testing.T) {
	w := NewWatch("x")
	w.Feed(journal.Entry{Kind: journal.Start}, wall)
	if got := w.Tick(wall.Add(14 * time.Minute)); got != nil {
		t.Errorf("%+v", got)
	}
	if got := w.Tick(wall.Add(15 * time.Minute)); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	if got := w.Tick(wall.Add(16 * time.Minute)); got != nil {
		t.Errorf("again: %+v", got)
	}
	for i := range int64(10) {
		w.Feed(journal.Entry{Kind: journal.ClockDone, Clock: i + 1, Seconds: 0.01}, wall)
	}
	if got := w.Tick(wall.Add(59 * time.Second)); got != nil {
		t.Errorf("%+v", got)
	}
	w.Feed(journal.Entry{Kind: journal.Done, Outcome: "finished"}, wall)
	if got := w.Tick(wall.Add(time.Hour)); got != nil {
		t.Errorf("after the end: %+v", got)
	}
}

func TestStorm(t *testing.T) {
	deadline := wall
	for name, c := range map[string]struct {
		held, taken int
		apart       time.Duration // of market time
		want        int
	}{
		"half at once": {8, 4, 0, 1}, "all at once": {8, 8, 0, 1}, "few": {8, 3, 0, 0}, "two of two": {2, 2, 0, 0}, "one by one": {8, 8, 11 * time.Minute, 0},
	} {
		w, storms := NewWatch("x"), 0
		for i := range c.held {
			w.Feed(journal.Entry{Kind: journal.Launch, Instance: fmt.Sprint(i), Tier: "transient"}, wall)
		}
		for i := range c.taken {
			at := wall.Add(time.Duration(i) * c.apart)
			for _, e := range []journal.Entry{{T: at, Kind: journal.Notice, Instance: fmt.Sprint(i), Deadline: &deadline}, {T: at, Kind: journal.Evicted, Instance: fmt.Sprint(i)}} {
				storms += len(w.Feed(e, wall))
			}
		}
		if storms != c.want {
			t.Errorf("%s: %d storms", name, storms)
		}
	}
}

func TestEnds(t *testing.T) {
	for outcome, want := range map[string]Kind{"finished": Finished, "interrupted": Stopped, "failed": Failed} {
		got := NewWatch("x").Feed(journal.Entry{Kind: journal.Done, Outcome: outcome, Why: "why"}, wall)
		if len(got) != 1 || got[0].Kind != want || got[0].Why != "why" {
			t.Errorf("%s: %+v", outcome, got)
		}
	}
	var all []Alert
	w := NewWatch("x")
	for _, e := range journaltest.New(1).Entries {
		all = append(all, w.Feed(e, wall)...)
	}
	if got := told(all); !slices.Contains(got, "eviction-storm") || !slices.Contains(got, "budget") || got[len(got)-1] != "finished" {
		t.Errorf("the story has %q", got)
	}
}

// receiver answers with the codes in order, the last one repeated.
type receiver struct {
	mu     sync.Mutex
	codes  []int
	bodies []string
	signed []string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies, r.signed = append(r.bodies, string(body)), append(r.signed, request.Header.Get(SignatureHeader))
	code := r.codes[0]
	if len(r.codes) > 1 {
		r.codes = r.codes[1:]
	}
	w.WriteHeader(code)
}

// notifier returns a notifier that posts to the receiver, and its log.
func notifier(t *testing.T, r *receiver) (*Notifier, *bytes.Buffer) {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hook, err := NewHook("", write("url", server.URL+"/services/hidden"), write("secret", "key"))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	return newNotifier(hook, slog.New(slog.NewTextHandler(&log, nil)), time.Microsecond, transport(notMetadata)), &log
}

func TestPostsAreRetried(t *testing.T) {
	for name, c := range map[string]struct {
		codes []int
		posts int
		log   string // part of it
	}{
		"taken":              {[]int{204}, 1, ""},
		"taken at the third": {[]int{500, 429, 200}, 3, ""},
		"refused":            {[]int{403}, 1, "403"},
		"sent elsewhere":     {[]int{302}, 1, "302"},
		"never taken":        {[]int{503}, tries, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &receiver{codes: c.codes}
			b, log := notifier(t, r)
			b.Notify(Alert{Kind: Finished, Run: "demo-1", At: wall})
			b.Close()
			b.Notify(Alert{}) // no listener any more
			if len(r.bodies) != c.posts || !strings.Contains(log.String(), c.log) || c.log == "" && log.Len() > 0 {
				t.Errorf("%d posts; log: %s", len(r.bodies), log)
			}
			if strings.Contains(log.String(), "hidden") || strings.Contains(log.String(), "key") {
				t.Errorf("a secret is in the log: %s", log)
			}
		})
	}
}

func TestSigned(t *testing.T) {
	r := &receiver{codes: []int{200}}
	b, _ := notifier(t, r)
	b.Notify(Alert{Kind: Budget, Run: "demo-1", Why: "near", At: wall, Clock: 7})
	b.Close()
	var a Alert
	if err := json.Unmarshal([]byte(r.bodies[0]), &a); err != nil || a.Kind != Budget || a.Clock != 7 || !a.At.Equal(wall) {
		t.Errorf("%s: %+v, %v", r.bodies[0], a, err)
	}
	if want := "demo-1: budget: near (clock 7)"; a.Text != want { // what Slack shows
		t.Errorf("text %q, want %q", a.Text, want)
	}
	seconds, _, _ := strings.Cut(strings.TrimPrefix(r.signed[0], "t="), ",")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || r.signed[0] != Sign([]byte("key"), []byte(r.bodies[0]), time.Unix(n, 0)) {
		t.Errorf("signed %q, %v", r.signed[0], err)
	}
	if Sign([]byte("other"), []byte(r.bodies[0]), time.Unix(n, 0)) == r.signed[0] {
		t.Error("any key will do")
	}
}

// Notify does not wait for a receiver that does not answer; alerts beyond the queue are dropped, and the log says so.
func TestNotifyDoesNotWait(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	hook, err := NewHook(server.URL, "", "")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	b := newNotifier(hook, slog.New(slog.NewTextHandler(&log, nil)), time.Microsecond, transport(notMetadata))
	for range waiting + 10 {
		b.Notify(Alert{Kind: Stuck})
	}
	close(release)
	b.Close()
	if !strings.Contains(log.String(), "dropped") {
		t.Error("nothing is dropped, or it is not said")
	}
}

func TestBadHooks(t *testing.T) {
	for _, address := range []string{"", "example.com/secret", "ftp://example.com/secret"} {
		if _, err := NewHook(address, "", ""); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := NewHook("https://example.com", "", filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a secret that is not there")
	}
}
