package notice_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/providers/ec2/notice"
	"github.com/tierml/tierml/provisioner"
)

// recorded are the answers of amazon-ec2-metadata-mock (https://github.com/aws/amazon-ec2-metadata-mock, commit bdf3096), started as
// `ec2-metadata-mock spot -I -d 6 --rebalance-delay-sec 3`: first before any event, then after the recommendation, then after the
// interruption notice. It is AWS's own, written independently of this package.
var recorded = []map[string]exchange{
	{"spot/instance-action": {404, "text/plain; charset=utf-8", page404}, "spot/termination-time": {404, "text/plain; charset=utf-8", page404},
		"events/recommendations/rebalance": {404, "text/plain; charset=utf-8", page404}, "instance-id": {200, "text/plain", "i-1234567890abcdef0"}},
	{"spot/instance-action": {404, "text/plain; charset=utf-8", page404}, "spot/termination-time": {404, "text/plain; charset=utf-8", page404},
		"events/recommendations/rebalance": {200, "application/json", "{\n\t\"noticeTime\": \"2026-11-21T22:20:03Z\"\n}"},
		"instance-id":                      {200, "text/plain", "i-1234567890abcdef0"}},
	{"spot/instance-action": {200, "application/json", "{\n\t\"action\": \"terminate\",\n\t\"time\": \"2026-11-21T22:22:07Z\"\n}"},
		"spot/termination-time":            {200, "text/plain", "2026-11-21T22:22:07Z"},
		"events/recommendations/rebalance": {200, "application/json", "{\n\t\"noticeTime\": \"2026-11-21T22:20:07Z\"\n}"},
		"instance-id":                      {200, "text/plain", "i-1234567890abcdef0"}},
}

type exchange struct {
	status      int
	kind, value string
}

const page404 = `<?xml version="1.0" encoding="iso-8859-1"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN"
	"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
 <head>
  <title>404 - Not Found</title>
 </head>
 <body>
  <h1>404 - Not Found</h1>
 </body>
</html>`

// playback gives the recorded answers, and advances to the next state when the watcher has seen it twice.
type playback struct {
	mu   sync.Mutex
	seen int
}

func (p *playback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds"))
		_, _ = io.WriteString(w, "QNEZAgISp3g5waI3B3Y70r7jvX9QHvaAAWGJBbO3q8U=")
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/latest/meta-data/")
	p.mu.Lock()
	if path == "spot/instance-action" {
		p.seen++
	}
	e := recorded[min((p.seen-1)/2, len(recorded)-1)][path]
	p.mu.Unlock()
	if r.Header.Get("X-Aws-Ec2-Metadata-Token") == "" {
		e.status = http.StatusUnauthorized
	}
	w.Header().Set("Content-Type", e.kind)
	w.WriteHeader(e.status)
	_, _ = io.WriteString(w, e.value)
}

func TestRecordedMetadataMock(t *testing.T) {
	server := httptest.NewServer(&playback{})
	defer server.Close()
	var got []provisioner.Notice
	ctx, cancel := context.WithCancel(t.Context())
	err := notice.Watch(ctx, notice.Config{Endpoint: server.URL, Interval: time.Millisecond, Report: func(err error) { t.Error(err) }},
		func(n provisioner.Notice) {
			if got = append(got, n); n.Kind == provisioner.Eviction {
				cancel()
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	const self = provisioner.InstanceID("i-1234567890abcdef0")
	deadline := time.Date(2026, 11, 21, 22, 22, 7, 0, time.UTC)
	if len(got) != 2 || got[0].Kind != provisioner.Rebalance || got[0].ID != self || got[1].ID != self || !got[1].Deadline.Equal(deadline) {
		t.Errorf("told %+v; want the recommendation, then the notice", got)
	}
}

const metadataMock = "TIERML_METADATA_MOCK"

// TestMetadataMock runs the mock itself and measures the delay until the watch sees the notice: the limit is two seconds.
func TestMetadataMock(t *testing.T) {
	program := os.Getenv(metadataMock)
	if program == "" {
		t.Skipf("%s is not set: build ./cmd/ec2-metadata-mock of https://github.com/aws/amazon-ec2-metadata-mock, and name the program", metadataMock)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	rebalance := time.Now().Add(4 * time.Second).Truncate(time.Second)
	interruption := rebalance.Add(3 * time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	mock := exec.CommandContext(ctx, program, "spot", "--imdsv2", "--hostname", "127.0.0.1", "--port", port,
		"--rebalance-trigger-time", rebalance.UTC().Format(time.RFC3339), "--mock-trigger-time", interruption.UTC().Format(time.RFC3339))
	mock.Dir, mock.Env = t.TempDir(), append(os.Environ(), "HOME="+t.TempDir())
	if err := mock.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = mock.Wait() }()
	watch, end := context.WithCancel(ctx)
	seen := map[provisioner.NoticeKind]time.Duration{}
	err = notice.Watch(watch, notice.Config{Endpoint: "http://127.0.0.1:" + port}, func(n provisioner.Notice) {
		switch n.Kind {
		case provisioner.Rebalance:
			seen[n.Kind] = time.Since(rebalance)
		case provisioner.Eviction:
			seen[n.Kind] = time.Since(interruption)
			end()
		}
	})
	end()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []provisioner.NoticeKind{provisioner.Rebalance, provisioner.Eviction} {
		after, told := seen[kind]
		if t.Logf("%s: seen after %.2f s", kind, after.Seconds()); !told || after > 2*time.Second {
			t.Errorf("%s: seen %v, after %v; want within two seconds", kind, told, after)
		}
	}
}
