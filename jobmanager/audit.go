package jobmanager

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tierml/tierml/internal/access"
)

// AuditFile has a line for each call that may change something, including refused ones. It is in the job server's directory.
const AuditFile = "audit.jsonl"

// AuditLine is a line of AuditFile: who did what, when, from where, and whether it was admitted.
type AuditLine struct {
	T      time.Time `json:"t"`
	Token  string    `json:"token"`           // the SHA-256 of the token
	Rights string    `json:"rights"`          // of the token
	User   string    `json:"user,omitempty"`  // who the client claims to be
	From   string    `json:"from"`            // the address; for a tunnel, that of its end on this host
	Call   string    `json:"call"`            // method and path
	Act    string    `json:"act,omitempty"`   // from a page's form
	Job    string    `json:"job,omitempty"`   // that it concerned
	Group  string    `json:"group,omitempty"` // of that job
	Status int       `json:"status"`          // of the response
}

// audit writes AuditFile.
type audit struct {
	mu   sync.Mutex
	path string
}

// write appends a line, as a whole.
func (a *audit) write(line AuditLine) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	file, err := os.OpenFile(a.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}

type auditKey struct{}

// about notes in a call's audit line which job it concerns, and who the client claims to be.
func about(r *http.Request, job, group, user string) {
	if line, ok := r.Context().Value(auditKey{}).(*AuditLine); ok {
		line.Job, line.Group, line.User = job, group, user
	}
}

// audited records each call that may change something, after it was answered.
func audited(m *Manager, next http.Handler) http.Handler {
	log := &audit{path: filepath.Join(m.cfg.Home, AuditFile)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		client := access.ClientOf(r.Context())
		line := &AuditLine{T: m.cfg.Now().UTC(), Token: client.ID(), Rights: client.String(), From: r.RemoteAddr, Call: r.Method + " " + strings.ToValidUTF8(r.URL.Path, "?")}
		answer := &answered{ResponseWriter: w, status: http.StatusOK}
		r = r.WithContext(context.WithValue(r.Context(), auditKey{}, line))
		next.ServeHTTP(answer, r)
		line.Status, line.Act = answer.status, strings.ToValidUTF8(r.PostForm.Get("act"), "?") // a page's form was parsed, at most 4 kB
		if err := log.write(*line); err != nil {
			m.cfg.Log.Error("a call is not in the audit log", "call", line.Call, "token", line.Token, "from", line.From, "error", err)
		}
	})
}

// answered keeps the status of a response.
type answered struct {
	http.ResponseWriter
	status int
}

func (a *answered) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }
