// Package fuzzing has what the fuzz targets of several packages need: whole HTTP requests from text, and a limit on the memory that an
// input may use. It knows no package of ours.
package fuzzing

import (
	"bufio"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Between separates the requests of a dialog.
const Between = "\n====\n"

// Request reads one request of a dialog: HTTP/1.1 as on the wire, the body being everything after the head. A line before the head may name
// a pause, such as "+90s". It returns nil for what net/http would refuse before a handler sees it.
func Request(text string) (r *http.Request, pause time.Duration) {
	if first, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(first, "+") {
		if d, err := time.ParseDuration(first[1:]); err == nil && d >= 0 {
			pause, text = d, rest
		}
	}
	head, body, _ := strings.Cut(text, "\n\n")
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head + "\n\n")))
	if err != nil {
		return nil, pause
	}
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	r.RemoteAddr = "127.0.0.1:1"
	return r, pause
}

// AtMost reports an error if f allocates more than a number of bytes for each byte of an input, plus a constant. Memory freed in between
// counts, too: a bound on the total also bounds the peak.
func AtMost(t testing.TB, input int, each uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20+each*uint64(input) {
		t.Errorf("%d bytes of input took %d bytes of memory", input, took)
	}
}
