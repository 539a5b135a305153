package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	gce "github.com/tierml/tierml/providers/gce/api"
	"github.com/tierml/tierml/provisioner"
)

// TestRefusals: Compute Engine's errors for a launch, immediate or in its operation, are classified in one place.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   error
		says   string
	}{
		{"no capacity", 200, failedAnswer(503, "ZONE_RESOURCE_POOL_EXHAUSTED", "nothing left"), provisioner.ErrNoCapacity, "nothing left"},
		{"no capacity, in detail", 200, failedAnswer(503, "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", ""), provisioner.ErrNoCapacity, ""},
		{"too few", 200, failedAnswer(400, "VM_MIN_COUNT_NOT_REACHED", ""), provisioner.ErrNoCapacity, ""},
		{"quota", 200, failedAnswer(403, "QUOTA_EXCEEDED", "Quota 'PREEMPTIBLE_CPUS' exceeded."), provisioner.ErrLimit, "page Quotas"},
		{"addresses", 200, failedAnswer(400, "IP_SPACE_EXHAUSTED", ""), provisioner.ErrLimit, "larger subnetwork"},
		{"rate of operations", 200, failedAnswer(429, "RATE_LIMIT_EXCEEDED", ""), provisioner.ErrThrottled, ""},
		{"their fault", 200, failedAnswer(500, "INTERNAL_ERROR", ""), provisioner.ErrTemporary, ""},
		{"no image", 200, failedAnswer(404, "RESOURCE_NOT_FOUND", ""), provisioner.ErrNotFound, ""},
		{"taken name", 200, failedAnswer(409, "RESOURCE_ALREADY_EXISTS", ""), provisioner.ErrInvalid, "another request"},
		{"unknown code", 200, failedAnswer(503, "SOMETHING_NEW", "words"), provisioner.ErrTemporary, "SOMETHING_NEW: words"},
		{"quota at once", 403, refusal(403, "quotaExceeded", ""), provisioner.ErrLimit, ""},
		{"rate", 403, refusal(403, "rateLimitExceeded", "Rate Limit Exceeded"), provisioner.ErrThrottled, ""},
		{"too many", 429, refusal(429, "somethingNew", ""), provisioner.ErrThrottled, ""},
		{"forbidden", 403, refusal(403, "forbidden", ""), provisioner.ErrDenied, "Compute Instance Admin"},
		{"not logged in", 401, refusal(401, "authError", ""), provisioner.ErrDenied, "gcloud auth"},
		{"API is off", 403, refusal(403, "accessNotConfigured", ""), provisioner.ErrDenied, "gcloud services enable"},
		{"no such type", 404, refusal(404, "notFound", ""), provisioner.ErrNotFound, ""},
		{"wrong field", 400, refusal(400, "invalid", "Invalid value for field"), provisioner.ErrInvalid, ""},
		{"unavailable", 503, refusal(503, "backendError", ""), provisioner.ErrTemporary, ""},
		{"not JSON", 502, "<html>bad gateway</html>", provisioner.ErrTemporary, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, func(r request) (int, string) {
				if r.method == http.MethodPost {
					return c.status, c.body
				}
				return 200, `{}`
			})
			_, err := s.cloud().Launch(t.Context(), spotRequest())
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if err != nil && (!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "launching 3 of gce/us-central1")) {
				t.Errorf("%v does not say %q", err, c.says)
			}
			for _, other := range []error{provisioner.ErrNoCapacity, provisioner.ErrLimit, provisioner.ErrThrottled, provisioner.ErrTemporary,
				provisioner.ErrInvalid, provisioner.ErrNotFound, provisioner.ErrDenied} {
				if !errors.Is(other, c.want) && errors.Is(err, other) {
					t.Errorf("%v is %v, too", err, other)
				}
			}
		})
	}
}

// TestAnswerCutOff: a truncated answer reveals nothing about what was done: retrying is right.
func TestAnswerCutOff(t *testing.T) {
	s := newServer(t, func(r request) (int, string) {
		if r.method == http.MethodPost {
			return 200, doneAnswer[:len(doneAnswer)/2]
		}
		return 200, `{}`
	})
	if _, err := s.cloud().Launch(t.Context(), spotRequest()); !errors.Is(err, provisioner.ErrTemporary) {
		t.Errorf("got %v, want a temporary failure", err)
	}
	torn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"kind": "compute#operation", `))
	}))
	defer torn.Close()
	cloud := newCloud(t, gce.Config{Project: "my-project", Endpoint: torn.URL, Region: "us-central1", Cluster: "blue", MaxAttempts: 1})
	if _, err := cloud.List(t.Context()); !errors.Is(err, provisioner.ErrTemporary) {
		t.Errorf("a connection that broke: %v, want a temporary failure", err)
	}
}

// TestTriesAgain: temporary failures are retried, permanent ones are not.
func TestTriesAgain(t *testing.T) {
	for _, c := range []struct {
		reason string
		status int
		want   int
	}{{"rateLimitExceeded", 403, 3}, {"backendError", 503, 3}, {"forbidden", 403, 1}, {"quotaExceeded", 403, 1}} {
		calls := 0
		s := newServer(t, func(request) (int, string) { calls++; return c.status, refusal(c.status, c.reason, "") })
		if _, err := s.cloud(func(g *gce.Config) { g.MaxAttempts = 3 }).List(t.Context()); err == nil || calls != c.want {
			t.Errorf("%s: %d calls, error %v; want %d", c.reason, calls, err, c.want)
		}
	}
}

// TestListsEndInTime: an unanswered list ends with its context, and each attempt after its timeout, although the SDK's own list calls
// support neither.
func TestListsEndInTime(t *testing.T) {
	stuck := make(chan struct{})
	s := newServer(t, func(request) (int, string) { <-stuck; return 200, `{}` })
	defer close(stuck)
	cloud := s.cloud(func(c *gce.Config) { c.AttemptTimeout = 10 * time.Millisecond })
	if _, err := cloud.List(t.Context()); !errors.Is(err, provisioner.ErrTemporary) {
		t.Errorf("got %v, want a temporary failure", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.cloud().List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

// TestCloudIsUnreachable: the connection to the cloud is broken.
func TestCloudIsUnreachable(t *testing.T) {
	cloud := newCloud(t, gce.Config{Project: "my-project", Endpoint: "http://127.0.0.1:1", Region: "us-central1", Cluster: "blue", MaxAttempts: 1})
	if _, err := cloud.List(t.Context()); !errors.Is(err, provisioner.ErrTemporary) {
		t.Errorf("got %v, want a temporary failure", err)
	}
}

// TestConfig: every fault is reported, before any request.
func TestConfig(t *testing.T) {
	good := gce.Config{Project: "my-project", Endpoint: "http://127.0.0.1:1", Region: "us-central1", Cluster: "blue"}
	for _, c := range []struct {
		change func(*gce.Config)
		says   string
	}{
		{func(c *gce.Config) { c.Project = "My Project" }, "project"},
		{func(c *gce.Config) { c.Region = "us-central1-a" }, "region"},
		{func(c *gce.Config) { c.Cluster = "" }, "cluster name"},
		{func(c *gce.Config) { c.MaxRun = time.Second }, "longest run 1s"},
		{func(c *gce.Config) { c.Preemptible, c.MaxRun = true, time.Hour }, "preemptible"},
		{func(c *gce.Config) { c.Endpoint = "http://10.0.0.1:80" }, "use https"},
		{func(c *gce.Config) { c.ShutdownTime = -1 }, "below zero"},
	} {
		config := good
		c.change(&config)
		if _, err := gce.New(t.Context(), config); !errors.Is(err, provisioner.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v, want it to say %q", err, c.says)
		}
	}
}

// TestNoCredentials: without credentials, the error says how to get some.
func TestNoCredentials(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", t.TempDir()+"/none.json")
	_, err := gce.New(t.Context(), gce.Config{Project: "my-project", Region: "us-central1", Cluster: "blue"})
	if !errors.Is(err, provisioner.ErrDenied) || !strings.Contains(err.Error(), "gcloud auth application-default login") {
		t.Errorf("got %v", err)
	}
}
