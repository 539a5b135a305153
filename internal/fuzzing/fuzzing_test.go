package fuzzing

import (
	"io"
	"testing"
	"time"
)

func TestRequest(t *testing.T) {
	r, pause := Request("+90s\nPOST /a?b=c HTTP/1.1\nHost: h\nX-Y: z\n\nbody\n\nof it")
	if r == nil || pause != 90*time.Second {
		t.Fatalf("%+v, %s", r, pause)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || string(body) != "body\n\nof it" || r.ContentLength != 11 || r.Header.Get("X-Y") != "z" || r.URL.RawQuery != "b=c" {
		t.Errorf("%+v, %q, %v", r, body, err)
	}
	if r, _ := Request("no request"); r != nil {
		t.Errorf("%+v", r)
	}
}

// recorder records whether something was wrong.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

var kept []byte

func TestAtMost(t *testing.T) {
	for bytes, want := range map[int]bool{1 << 10: false, 64 << 20: true} {
		r := &recorder{TB: t}
		if AtMost(r, 100, 1000, func() { kept = make([]byte, bytes) }); r.failed != want {
			t.Errorf("%d bytes: %v", bytes, r.failed)
		}
	}
}
