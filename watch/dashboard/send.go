package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tierml/tierml/cost/page"
)

// policy is the Content-Security-Policy: nothing from elsewhere, and only our own two scripts and styles, by their hashes.
var policy = "default-src 'none'; style-src '" + hash(page.Style) + "'; script-src '" + hash(page.LiveScript) +
	"'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// strict keeps browsers from loading anything from elsewhere and from storing anything.
func strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "same-origin") // with no-referrer a form's Origin would be null, and the gate would refuse it
		w.Header().Set("Content-Security-Policy", policy)
		next.ServeHTTP(w, r)
	})
}

// content is a response that is ready to be sent to any number of clients.
type content struct {
	kind          string
	plain, packed []byte
	tag           string
}

// packWorth is the size from which an answer is compressed.
const packWorth = 1024

func pack(kind string, plain []byte) *content {
	plain = page.Clean(plain)
	sum := sha256.Sum256(plain)
	c := &content{kind: kind, plain: plain, tag: `"` + hex.EncodeToString(sum[:12]) + `"`}
	if len(plain) >= packWorth {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is valid
		_, _ = z.Write(plain)                           // a buffer accepts everything
		_ = z.Close()
		c.packed = b.Bytes()
	}
	return c
}

// send sends the content, or the status that the client's copy is current.
func (c *content) send(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("ETag", c.tag)
	if r.Header.Get("If-None-Match") == c.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", c.kind)
	body := c.plain
	if c.packed != nil && packs(w, r) {
		body = c.packed
	}
	_, _ = w.Write(body) // the client may have disconnected
}

// packs reports whether a response should be compressed, and says so in its header.
func packs(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Add("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return false
	}
	w.Header().Set("Content-Encoding", "gzip")
	return true
}

// A response is reused for a fixed time, and for a multiple of the time that it took to make: any number of open pages needs as much
// processor time as one, at most a fifth.
const (
	fresh      = time.Second
	freshTimes = 5
)

// kept is a response and its inputs.
type kept struct {
	mu    sync.Mutex
	now   func() time.Time // the wall clock; nil = the system's
	key   string
	until time.Time
	is    *content
}

// forget drops the response, or if it is in use, later.
func (k *kept) forget() {
	if k.mu.TryLock() {
		k.is = nil
		k.mu.Unlock()
	}
}

// get returns a recent response with the same inputs, or makes one; if the inputs no longer change, of any age. One client makes it, the
// others wait.
func (k *kept) get(key string, stands bool, create func() (*content, error)) (*content, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now
	if k.now != nil {
		now = k.now
	}
	began := now()
	if k.is != nil && k.key == key && (stands || began.Before(k.until)) {
		return k.is, nil
	}
	is, err := create()
	if err != nil {
		return nil, err
	}
	k.key, k.is = key, is
	k.until = began.Add(max(fresh, freshTimes*now().Sub(began)))
	return is, nil
}
