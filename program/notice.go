package program

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/sameuser"
)

// Kinds of notices.
const (
	evicted   = "eviction"  // the machine goes at the deadline
	rebalance = "rebalance" // it is likely to go, at an unknown time
	stopped   = "stop"      // the program is ended at the deadline, the machine stays
)

// notice is what a program can read of what is to come, in the file and from the URL.
type notice struct {
	Kind     string     `json:"kind"`
	Deadline *time.Time `json:"deadline,omitempty"` // nil = unknown
	Seconds  *float64   `json:"seconds,omitempty"`  // until then, when it was read or written
}

func newNotice(kind string, deadline time.Time) notice {
	n := notice{Kind: kind}
	if !deadline.IsZero() {
		deadline = deadline.UTC()
		n.Deadline = &deadline
	}
	return n
}

func (n notice) at(now time.Time) notice {
	if n.Deadline != nil {
		left := max(0, n.Deadline.Sub(now).Seconds())
		n.Seconds = &left
	}
	return n
}

// write puts the notice into a file, which is there as a whole or not at all.
func (n notice) write(name string, now time.Time) error {
	text, err := json.Marshal(n.at(now))
	if err != nil {
		return err
	}
	return replace(name, append(text, '\n'))
}

// replace writes a file through a rename.
func replace(name string, text []byte) error {
	scratch := filepath.Join(filepath.Dir(name), ".new-"+filepath.Base(name))
	if err := os.WriteFile(scratch, text, 0o600); err != nil {
		return err
	}
	return os.Rename(scratch, name)
}

// noticeServer answers GET /notice: 404 as long as nothing is to come, like a cloud's metadata service.
// With keys it answers GET /credentials, as the AWS SDKs ask for them in containers.
type noticeServer struct {
	url    string
	keys   func() (blob.Keys, error) // nil = programs get none
	secret string                    // which a request for them shows
	server *http.Server
	served chan struct{}

	mu   sync.Mutex
	last *notice
}

func serveNotices(keys func() (blob.Keys, error), log *slog.Logger) (*noticeServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &noticeServer{url: "http://" + listener.Addr().String(), keys: keys, secret: rand.Text(), served: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /notice", b.answer)
	mux.HandleFunc("GET /credentials", b.credentials)
	b.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		defer close(b.served)
		_ = b.server.Serve(sameuser.Listener(listener, log)) // ends with close
	}()
	return b, nil
}

func (b *noticeServer) answer(w http.ResponseWriter, _ *http.Request) {
	b.mu.Lock()
	n := b.last
	b.mu.Unlock()
	if n == nil {
		http.Error(w, "no notice", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(n.at(time.Now())) // the client may be gone
}

// credentials answers in the form of https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html.
func (b *noticeServer) credentials(w http.ResponseWriter, r *http.Request) {
	if b.keys == nil || subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(b.secret)) == 0 {
		http.Error(w, "write cloud_access: true in the job file, and show AWS_CONTAINER_AUTHORIZATION_TOKEN", http.StatusForbidden)
		return
	}
	keys, err := b.keys()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"AccessKeyId": keys.AccessKeyID, "SecretAccessKey": keys.SecretAccessKey, "Token": keys.SessionToken,
		"Expiration": keys.Expires.UTC()})
}

// environment returns where a program finds what is served.
func (b *noticeServer) environment() map[string]string {
	env := map[string]string{"TIERML_NOTICE_URL": b.url + "/notice"}
	if b.keys != nil {
		env["AWS_CONTAINER_CREDENTIALS_FULL_URI"], env["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = b.url+"/credentials", b.secret
	}
	return env
}

func (b *noticeServer) set(n *notice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = n
}

func (b *noticeServer) close() {
	_ = b.server.Close()
	<-b.served
}
