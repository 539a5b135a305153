package notice_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tierml/tierml/providers/ec2/notice"
	"github.com/tierml/tierml/provisioner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// metadata is an instance metadata service, version 2 only. Each path has a list of answers: one per request, the last one repeated. An
// empty one is "not found"; one that begins with "!" is a server error.
type metadata struct {
	t   testing.TB
	url string

	mu      sync.Mutex
	answers map[string][]string
	asked   map[string]int
}

func newMetadata(t testing.TB, answers map[string][]string) *metadata {
	m := &metadata{t: t, answers: answers, asked: map[string]int{}}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

func (m *metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" {
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
		w.Write([]byte("secret"))
		return
	}
	if r.Header.Get("X-Aws-Ec2-Metadata-Token") != "secret" {
		m.t.Errorf("%s without the session's token", r.URL.Path)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	switch answer := m.next(strings.TrimPrefix(r.URL.Path, "/latest/")); {
	case answer == "":
		w.WriteHeader(http.StatusNotFound)
	case strings.HasPrefix(answer, "!"):
		w.WriteHeader(http.StatusBadRequest)
	default:
		w.Write([]byte(answer))
	}
}

func (m *metadata) next(path string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.answers[path]
	if len(list) == 0 {
		return ""
	}
	n := min(m.asked[path], len(list)-1)
	m.asked[path]++
	return list[n]
}

// looks returns how often a path was requested.
func (m *metadata) looks(path string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[path]
}

const (
	action    = "meta-data/spot/instance-action"
	older     = "meta-data/spot/termination-time"
	rebalance = "meta-data/events/recommendations/rebalance"
	self      = "meta-data/instance-id"
)

func at(minute int) time.Time { return time.Date(2014, 3, 1, 12, minute, 0, 0, time.UTC) }

// watch collects notices until the path has been requested this many times.
func watch(t *testing.T, m *metadata, path string, looks int) (notices []provisioner.Notice, reports []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- notice.Watch(ctx, notice.Config{
			Endpoint: m.url, Interval: time.Millisecond,
			Report: func(err error) { reports = append(reports, err.Error()) },
		}, func(n provisioner.Notice) { notices = append(notices, n) })
	}()
	for m.looks(path) < looks && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Errorf("%s was asked for %d times only", path, m.looks(path))
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("watch ended with %v", err)
	}
	return notices, reports
}

func evictionAt(minute int) provisioner.Notice {
	return provisioner.Notice{Kind: provisioner.Eviction, ID: "i-0a", Deadline: at(minute)}
}

var rebalanced = provisioner.Notice{Kind: provisioner.Rebalance, ID: "i-0a"}

func TestWatch(t *testing.T) {
	const good2, good4 = `{"action": "terminate", "time": "2014-03-01T12:02:00Z"}`, `{"action":"stop","time":"2014-03-01T12:04:00Z"}`
	for _, c := range []struct {
		name    string
		answers map[string][]string
		path    string // requested 8 times
		want    []provisioner.Notice
		report  string // part of the only report; "" = none
	}{
		{"quiet", map[string][]string{action: {"", ""}}, action, nil, ""},
		{"evicted, told once", map[string][]string{action: {"", good2}}, action, []provisioner.Notice{evictionAt(2)}, ""},
		{"later deadline is not told", map[string][]string{action: {good2, good4}}, action, []provisioner.Notice{evictionAt(2)}, ""},
		{"earlier deadline is told", map[string][]string{action: {good4, good2}}, action, []provisioner.Notice{evictionAt(4), evictionAt(2)}, ""},
		{"older path alone", map[string][]string{older: {"", "2014-03-01T12:02:00Z\n"}}, older, []provisioner.Notice{evictionAt(2)}, ""},
		{"rebalance, then evicted", map[string][]string{rebalance: {`{"noticeTime": "2014-03-01T11:59:00Z"}`}, action: {"", "", good2}}, action,
			[]provisioner.Notice{rebalanced, evictionAt(2)}, ""},
		{"not JSON", map[string][]string{action: {"soon"}}, action, nil, `"soon" is not JSON`},
		{"unknown action", map[string][]string{action: {`{"action":"dance","time":"2014-03-01T12:02:00Z"}`}}, action, nil, `"dance"`},
		{"no time", map[string][]string{action: {`{"action":"terminate"}`}}, action, nil, "is no time"},
		{"nonsense, but the older path knows", map[string][]string{action: {"soon"}, older: {"2014-03-01T12:02:00Z"}}, action,
			[]provisioner.Notice{evictionAt(2)}, "not JSON"},
		{"nonsense, then sense", map[string][]string{action: {"soon", "soon", good2}}, action, []provisioner.Notice{evictionAt(2)}, "not JSON"},
		{"service fails, then works", map[string][]string{action: {"!", "!", "!", "!", good2}}, action, []provisioner.Notice{evictionAt(2)}, "instance-action"},
		{"bad rebalance", map[string][]string{rebalance: {`{"noticeTime": 5}`}}, rebalance, nil, "rebalance"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.answers[self] = []string{"i-0a"}
			got, reports := watch(t, newMetadata(t, c.answers), c.path, 8)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("notices (-want +got):\n%s", diff)
			}
			switch {
			case c.report == "" && len(reports) > 0, c.report != "" && (len(reports) != 1 || !strings.Contains(reports[0], c.report)):
				t.Errorf("reported %q, want one with %q", reports, c.report)
			}
		})
	}
}

// A notice waits until the machine knows its own name.
func TestWatchWaitsForIdentity(t *testing.T) {
	m := newMetadata(t, map[string][]string{action: {`{"action": "terminate", "time": "2014-03-01T12:02:00Z"}`}, self: {"", "", "i-0a"}})
	got, reports := watch(t, m, action, 8)
	if diff := cmp.Diff([]provisioner.Notice{evictionAt(2)}, got); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	if len(reports) != 1 || !strings.Contains(reports[0], "instance-id") {
		t.Errorf("reported %q", reports)
	}
}

func TestWatchWithoutService(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reports := 0
	err := notice.Watch(ctx, notice.Config{Endpoint: "http://127.0.0.1:1", Interval: time.Millisecond,
		Report: func(error) { reports++; cancel() }}, func(provisioner.Notice) { t.Error("notice") })
	if err != nil || reports != 1 {
		t.Errorf("got %v after %d reports", err, reports)
	}
}

func TestReadIdentity(t *testing.T) {
	answers := map[string][]string{
		self: {"i-0123456789abcdef0"}, "meta-data/instance-type": {"c3.xlarge"},
		"meta-data/placement/availability-zone": {"us-west-1a"}, "meta-data/placement/region": {"us-west-1"},
	}
	m := newMetadata(t, answers)
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", m.url)
	got, err := notice.ReadIdentity(t.Context(), notice.Config{})
	want := notice.Identity{ID: "i-0123456789abcdef0", Type: "c3.xlarge", Zone: "us-west-1a", Region: "us-west-1"}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for path, answer := range map[string]string{self: "<html>", "meta-data/instance-type": "", "meta-data/placement/region": "!"} {
		right := answers[path]
		answers[path] = []string{answer}
		if got, err := notice.ReadIdentity(t.Context(), notice.Config{}); err == nil {
			t.Errorf("%s answered %q, and the identity is %+v", path, answer, got)
		}
		answers[path] = right
	}
}

func TestReadUserData(t *testing.T) {
	m := newMetadata(t, map[string][]string{"user-data": {"join\ttoken\n", "", "!", strings.Repeat("x", 1<<17)}})
	c := notice.Config{Endpoint: m.url}
	if got, err := notice.ReadUserData(t.Context(), c); err != nil || string(got) != "join\ttoken\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := notice.ReadUserData(t.Context(), c); err != nil || got != nil {
		t.Errorf("without user data: got %q, %v", got, err)
	}
	for _, what := range []string{"a failure", "an answer without end"} {
		if got, err := notice.ReadUserData(t.Context(), c); err == nil {
			t.Errorf("%s gave %d bytes", what, len(got))
		}
	}
}
