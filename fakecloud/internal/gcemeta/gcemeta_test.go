package gcemeta

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
	"github.com/tierml/tierml/market"
)

// machine can be changed while calls wait.
type machine struct {
	mu sync.Mutex
	i  region.Instance
}

func (m *machine) look() (region.Instance, region.Type) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.i, region.Type{InstanceType: market.InstanceType{Arch: "x86_64"}}
}

func (m *machine) preempt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.i.NoticedAt = time.Now()
}

func newMachine() *machine {
	return &machine{i: region.Instance{ID: "m-0", Tags: map[string]string{"tierml-user-data": "hello"}, Pool: market.Pool{Provider: "gce",
		Region: "us-central1", Zone: "us-central1-a", Type: "n2-standard-2", Class: market.Spot}}}
}

func get(ctx context.Context, m *machine, path string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.Header.Set("Metadata-Flavor", "Google")
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	New(m.look).ServeHTTP(w, r)
	return w
}

func TestValues(t *testing.T) {
	for _, c := range []struct {
		path   string
		header http.Header
		status int
		want   string
	}{
		{"/computeMetadata/v1/instance/name", nil, 200, "m-0"},
		{"/computeMetadata/v1/instance/zone", nil, 200, "projects/123456789012/zones/us-central1-a"},
		{"/computeMetadata/v1/instance/preempted", nil, 200, "FALSE"},
		{"/computeMetadata/v1/instance/maintenance-event", nil, 200, "NONE"},
		{"/computeMetadata/v1/instance/attributes/", nil, 200, "tierml-user-data\n"},
		{"/computeMetadata/v1/instance/attributes/tierml-user-data", nil, 200, "hello"},
		{"/computeMetadata/v1/instance/scheduling/?recursive=true", nil, 200, `{"automaticRestart":"FALSE","onHostMaintenance":"TERMINATE","preemptible":"TRUE"}`},
		{"/computeMetadata/v1/instance/attributes/?recursive=true", nil, 200, `{"tierml-user-data":"hello"}`},
		{"/computeMetadata/v1/", nil, 200, "instance/\nproject/\n"},
		{"/computeMetadata/v1/instance/nothing", nil, 404, ""},
		{"/latest/meta-data/", nil, 404, ""},
		{"/computeMetadata/v1/instance/name", http.Header{"Metadata-Flavor": {"Amazon"}}, 403, ""},
		{"/computeMetadata/v1/instance/name", http.Header{"X-Forwarded-For": {"10.0.0.1"}}, 403, ""},
	} {
		w := get(t.Context(), newMachine(), c.path, c.header)
		if w.Code != c.status || c.want != "" && w.Body.String() != c.want || w.Header().Get("Metadata-Flavor") != "Google" {
			t.Errorf("%s: %d %q, want %d %q", c.path, w.Code, w.Body, c.status, c.want)
		}
		if w.Code == 200 && w.Header().Get("ETag") == "" {
			t.Errorf("%s has no ETag", c.path)
		}
	}
}

// TestWait: a waiting call is answered when the value changes, at once when the client's value differs, and at the time-out with the
// unchanged value.
func TestWait(t *testing.T) {
	const path = "/computeMetadata/v1/instance/preempted?wait_for_change=true"
	m := newMachine()
	now := get(t.Context(), m, "/computeMetadata/v1/instance/preempted", nil).Header().Get("ETag")
	if w := get(t.Context(), m, path+"&last_etag=0", nil); w.Body.String() != "FALSE" || w.Header().Get("ETag") != now {
		t.Errorf("got %q", w.Body)
	}
	if w := get(t.Context(), m, path+"&timeout_sec=1&last_etag="+now, nil); w.Code != 200 || w.Body.String() != "FALSE" {
		t.Errorf("when late: %d %q", w.Code, w.Body)
	}
	answered := make(chan string)
	go func() { answered <- get(t.Context(), m, path+"&last_etag="+now, nil).Body.String() }()
	select {
	case early := <-answered:
		t.Errorf("answered %q though nothing has changed", early)
	case <-time.After(3 * lookEvery):
	}
	m.preempt()
	if got := <-answered; got != "TRUE" {
		t.Errorf("got %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if w := get(ctx, newMachine(), path, nil); strings.TrimSpace(w.Body.String()) != "" {
		t.Errorf("a client that is gone got %q", w.Body)
	}
}
