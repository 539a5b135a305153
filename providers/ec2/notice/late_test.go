package notice

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierml/tierml/provisioner"
)

// A service that answers late is retried: the error says so, whatever the library reports.
func TestLateServiceIsRecognized(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-stop }))
	defer server.Close()
	defer close(stop)
	if _, err := ReadIdentity(t.Context(), Config{Endpoint: server.URL}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// A notice from a service that hangs for two calls is reported once it answers again.
func TestNoticeAfterAHang(t *testing.T) {
	t.Parallel()
	var hung atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/api/token"):
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			fmt.Fprint(w, "session")
		case strings.HasSuffix(path, pathInstanceAction) && hung.Add(1) <= 2:
			<-r.Context().Done()
		case strings.HasSuffix(path, pathInstanceAction):
			fmt.Fprint(w, `{"action": "terminate", "time": "2014-03-01T12:02:00Z"}`)
		case strings.HasSuffix(path, "instance-id"):
			fmt.Fprint(w, "i-1")
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	told := false
	err := Watch(ctx, Config{Endpoint: server.URL, Interval: time.Millisecond}, func(n provisioner.Notice) {
		told = n.ID == "i-1" && n.Kind == provisioner.Eviction
		cancel()
	})
	if err != nil || !told || hung.Load() < 3 {
		t.Errorf("told %v after %d calls: %v", told, hung.Load(), err)
	}
}
