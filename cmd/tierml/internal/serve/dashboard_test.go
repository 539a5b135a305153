package serve

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/access"
)

// lineBuffer is an output that a test reads while it is being written.
type lineBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lineBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lineBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// The dashboard listens only on this host. Garbage and oversized requests end only their own connection.
func TestStrangersAtTheDashboard(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0", "example.com:80"} {
		for _, d := range []dashboardOptions{{}, {tokenFile: "token"}} { // in the clear; without a token
			d.door.Address, d.door.Plaintext, d.root = address, d.tokenFile == "", t.TempDir()
			if err := serveDashboard(t.Context(), d, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "other hosts c") {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
	ctx, end := context.WithCancel(t.Context())
	var out lineBuffer
	var served sync.WaitGroup
	served.Go(func() {
		if err := serveDashboard(ctx, dashboardOptions{door: doorFlags{access.Endpoint{Address: "127.0.0.1:0"}}, root: t.TempDir()}, &out, io.Discard); err != nil {
			t.Error(err)
		}
	})
	defer served.Wait()
	defer end()
	var at string
	for deadline := time.Now().Add(time.Minute); at == "" && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, after, found := strings.Cut(out.String(), "http://"); found {
			at, _, _ = strings.Cut(after, " ")
		}
	}
	for what, said := range map[string]string{
		"garbage": strings.Repeat("\xa5", 1<<16) + "\r\n\r\n", "TLS": "\x16\x03\x01\xff\xff" + strings.Repeat("\x00", 1<<16) + "\r\n\r\n",
		"an oversized header": "GET / HTTP/1.1\r\nHost: " + at + "\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n",
		"another host":        "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = conn.Write([]byte(said)) // it may be cut off
		answer := make([]byte, 12)
		n, _ := io.ReadFull(conn, answer) // a reset is a refusal, too
		if n == len(answer) && !strings.HasPrefix(string(answer), "HTTP/1.1 4") {
			t.Errorf("%s was answered by %q", what, answer)
		}
		_ = conn.Close()
	}
	response, err := http.Get("http://" + at + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %s", response.Status)
	}
	http.DefaultClient.CloseIdleConnections()
}
