package notice_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/providers/gce/notice"
	"github.com/tierml/tierml/provisioner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server answers with given values. A wait ends when a value is set.
type server struct {
	mu      sync.Mutex
	values  map[string]string
	changed chan struct{}
	waits   int    // calls that waited for a change
	hangs   string // a path whose calls are not answered
}

func newServer(t *testing.T, values map[string]string) *server {
	s := &server{values: values, changed: make(chan struct{})}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(h.URL, "http://"))
	return s
}

func (s *server) set(path, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[path] = value
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/computeMetadata/v1/")
	if r.Header.Get("Metadata-Flavor") != "Google" {
		http.Error(w, "no flavor", http.StatusForbidden)
		return
	}
	if path == s.hangs {
		<-r.Context().Done()
		return
	}
	for {
		s.mu.Lock()
		value, ok := s.values[path]
		changed := s.changed
		q := r.URL.Query()
		wait := q.Get("wait_for_change") == "true" && q.Get("last_etag") == "etag-"+value
		if wait {
			s.waits++
		}
		s.mu.Unlock()
		if wait {
			select {
			case <-changed:
				continue
			case <-r.Context().Done():
				return
			}
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", "etag-"+value)
		w.Write([]byte(value))
		return
	}
}

var marketTime = clock.Mapping{Market: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Wall: time.Now(), Speed: 60}

// watch starts a Watch that ends with the test.
func watch(t *testing.T, c notice.Config) <-chan provisioner.Notice {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	told, done := make(chan provisioner.Notice, 10), make(chan error, 1)
	go func() { done <- notice.Watch(ctx, c, func(n provisioner.Notice) { told <- n }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch ended with %v", err)
		}
	})
	return told
}

func next(t *testing.T, told <-chan provisioner.Notice) provisioner.Notice {
	t.Helper()
	select {
	case n := <-told:
		return n
	case <-time.After(time.Minute):
		t.Fatal("no notice within a minute")
		return provisioner.Notice{}
	}
}

func machine(values ...string) map[string]string {
	all := map[string]string{"instance/name": "m-1", "instance/preempted": "FALSE", "instance/maintenance-event": "NONE"}
	for n := 0; n < len(values); n += 2 {
		all[values[n]] = values[n+1]
	}
	return all
}

// TestLengths: the deadline is as far away as requested at the launch, 30 s by default.
func TestLengths(t *testing.T) {
	for _, c := range []struct {
		attribute string
		want      time.Duration
	}{{"", 30 * time.Second}, {"2m0s", 2 * time.Minute}, {"150s", 150 * time.Second}, {"soon", 30 * time.Second}, {"-1s", 30 * time.Second}} {
		t.Run(c.attribute, func(t *testing.T) {
			values := machine()
			if c.attribute != "" {
				values["instance/attributes/tierml-notice"] = c.attribute
			}
			s := newServer(t, values)
			told := watch(t, notice.Config{Clock: marketTime})
			before := marketTime.Now()
			s.set("instance/preempted", "TRUE")
			n := next(t, told)
			earliest, latest := before.Add(60*c.want), marketTime.Now().Add(60*c.want) // 60 market seconds in a second
			if n.Kind != provisioner.Eviction || n.ID != "m-1" || n.Deadline.Before(earliest) || n.Deadline.After(latest) {
				t.Errorf("got %+v, want an eviction of m-1 between %s and %s", n, earliest, latest)
			}
		})
	}
}

// A call that hangs, as one to a host in trouble does, is repeated: a preemption of that time is reported, even if nothing says how much
// time is left.
func TestServerThatHangs(t *testing.T) {
	s := newServer(t, machine())
	s.hangs = "instance/attributes/tierml-notice"
	told := watch(t, notice.Config{AnswerWithin: 50 * time.Millisecond, Pause: time.Millisecond})
	for waits := 0; waits < 2; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		waits = s.waits
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.values["instance/preempted"] = "TRUE" // and the waiting call hears nothing of it
	s.mu.Unlock()
	if n := next(t, told); n.Kind != provisioner.Eviction {
		t.Errorf("got %+v, want an eviction", n)
	}
}

// TestOnceEach: a notice in force at the start is reported, and none twice.
func TestOnceEach(t *testing.T) {
	s := newServer(t, machine("instance/preempted", "TRUE"))
	told := watch(t, notice.Config{})
	if n := next(t, told); n.Kind != provisioner.Eviction {
		t.Errorf("got %+v, want an eviction", n)
	}
	s.set("instance/maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE")
	if n := next(t, told); n.Kind != provisioner.Rebalance || !n.Deadline.IsZero() {
		t.Errorf("got %+v, want a raised risk", n)
	}
	s.set("instance/maintenance-event", "NONE")
	s.set("instance/preempted", "FALSE")
	s.set("instance/preempted", "TRUE")
	s.set("instance/maintenance-event", "MIGRATE_ON_HOST_MAINTENANCE")
	select {
	case n := <-told:
		t.Errorf("told again: %+v", n)
	case <-time.After(100 * time.Millisecond):
	}
}

// TestNonsense: an answer that makes no sense is reported once and does not end the watch.
func TestNonsense(t *testing.T) {
	s := newServer(t, machine("instance/preempted", "MAYBE"))
	complaints := make(chan error, 100)
	told := watch(t, notice.Config{Pause: time.Millisecond, Report: func(err error) { complaints <- err }})
	select {
	case err := <-complaints:
		if !strings.Contains(err.Error(), `"MAYBE" is neither TRUE nor FALSE`) {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing is reported")
	}
	s.set("instance/preempted", "TRUE")
	if n := next(t, told); n.Kind != provisioner.Eviction {
		t.Errorf("got %+v, want an eviction", n)
	}
	if len(complaints) > 0 {
		t.Errorf("%d more complaints", len(complaints))
	}
}

func TestIdentity(t *testing.T) {
	newServer(t, machine("instance/zone", "projects/1/zones/us-central1-a", "instance/machine-type", "projects/1/machineTypes/n2-standard-4",
		"instance/attributes/tierml-user-data", "hello"))
	i, err := notice.ReadIdentity(t.Context())
	want := notice.Identity{ID: "m-1", Type: "n2-standard-4", Zone: "us-central1-a", Region: "us-central1"}
	if err != nil || i != want {
		t.Errorf("got %+v, %v; want %+v", i, err, want)
	}
	if data, err := notice.ReadUserData(t.Context()); err != nil || string(data) != "hello" {
		t.Errorf("got %q, %v", data, err)
	}
}

func TestNoUserData(t *testing.T) {
	newServer(t, machine())
	if data, err := notice.ReadUserData(t.Context()); err != nil || data != nil {
		t.Errorf("got %q, %v; want nothing", data, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := notice.ReadIdentity(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
