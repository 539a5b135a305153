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
	evicted   = "eviction"  // the machine is reclaimed at the deadline
	rebalance = "rebalance" // likely, at an unknown time
	stopped   = "stop"      // the program ends at the deadline, the machine stays
)

// notice is what a program can read from the file and the URL about a coming interruption.
type notice struct {
	Kind     string     `json:"kind"`
	Deadline *time.Time `json:"deadline,omitempty"` // nil = unknown
	Seconds  *float64   `json:"seconds,omitempty"`  // until the deadline, when read or written
}

func newNotice(kind string, deadline time.Time) notice {
	n := notice{Kind: kind}
	if !deadline.IsZero() {
		deadline = deadline.UTC()
		n.Deadline = &deadline
	}
	return n
}

func (n notice) asOf(now time.Time) notice {
	if n.Deadline != nil {
		left := max(0, n.Deadline.Sub(now).Seconds())
		n.Seconds = &left
	}
	return n
}

// write writes the notice to a file atomically.
func (n notice) write(name string, now time.Time) error {
	text, err := json.Marshal(n.asOf(now))
	if err != nil {
		return err
	}
	return replace(name, append(text, '\n'))
}

// replace writes a file atomically, by a rename.
func replace(name string, text []byte) error {
	scratch := filepath.Join(filepath.Dir(name), ".new-"+filepath.Base(name))
	if err := os.WriteFile(scratch, text, 0o600); err != nil {
		return err
	}
	return os.Rename(scratch, name)
}

// noticeServer answers GET /notice: 404 while there is no notice, like a cloud's metadata service. With keys it answers GET /credentials,
// which the AWS SDKs request in containers.
type noticeServer struct {
	url    string
	keys   func() (blob.Keys, error) // nil = programs get none
	secret string                    // must be in requests for keys
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
		_ = b.server.Serve(sameuser.Listener(listener, log)) // returns on close
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
	_ = json.NewEncoder(w).Encode(n.asOf(time.Now())) // the client may have disconnected
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

// environment returns the variables that tell a program where this server is.
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
