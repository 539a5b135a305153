package jobmanager

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/fuzzing"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
)

const secret = "a-token-that-opens" // of the fuzzed job server

// FuzzAPI sends a job server whole HTTP requests, one after the other, with or without the token: without it none gets in, nothing fails
// that is not the client's fault, no file is created outside the directory, and memory is bounded.
func FuzzAPI(f *testing.F) {
	const sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of "hello"
	const head = " HTTP/1.1\nHost: 127.0.0.1:80\nAuthorization: Bearer " + secret + "\n\n"
	job, err := json.Marshal(call.Submission{Job: "name: x\ncloud: ec2\nresources: {count: 2, any_of: [{type: c5.large}]}\ntrain: {app: mf, data: s3://b/k, clocks: 4}\nec2:\n" +
		"  region: us-west-2\n  image: ami-1\n  checkpoints: s3://bucket/checkpoints\n  catalog: uploaded:" + sum + "/x.csv\n  program: {url: s3://b/p, sha256: " + sum + "}\n"})
	if err != nil {
		f.Fatal(err)
	}
	for _, dialog := range [][]string{
		{"PUT /api/v1/inputs/" + sum + "/x.csv" + head + "hello", "HEAD /api/v1/inputs/" + sum + "/x.csv" + head, "POST /api/v1/jobs" + head + string(job), "GET /api/v1/jobs" + head,
			"POST /api/v1/plan" + head + string(job), "POST /api/v1/jobs/x/stop" + head + `{"by": "me", "now": true}`, "POST /api/v1/jobs/x-1/resume" + head},
		{"GET /api/v1/jobs/latest" + head, "GET /api/v1/jobs/demo-1/events?skip=1&follow=1" + head, "GET /api/v1/jobs/demo/logs?name=agent" + head,
			"GET /api/v1/jobs/demo/files/journal.jsonl" + head, "POST /api/v1/jobs/demo/scale" + head + `{"workers": 2, "wait": true}`},
		{"GET / HTTP/1.1\nHost: 127.0.0.1:80\nCookie: tierml=x\nAccept: text/html\n\n", "POST /login HTTP/1.1\nHost: 127.0.0.1:80\nContent-Type: application/x-www-form-urlencoded\n\ntoken=" + secret,
			"GET /api/v1/jobs HTTP/1.1\nHost: h\nAuthorization: Bearer x\n\n", "GET /runs/demo-1" + head, "GET /api/runs/demo-1/report" + head, "GET /metrics" + head, "GET /api/v1/../../x" + head},
	} {
		f.Add(strings.Join(dialog, fuzzing.Between))
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	f.Fuzz(func(t *testing.T, dialog string) {
		if len(dialog) > 16<<10 || strings.Count(dialog, fuzzing.Between) > 12 {
			return
		}
		around := t.TempDir()
		m, handler := fuzzed(t, filepath.Join(around, "home"))
		defer m.release()
		fuzzing.AtMost(t, len(dialog), 64<<10, func() {
			for text := range strings.SplitSeq(dialog, fuzzing.Between) {
				r, _ := fuzzing.Request(text)
				if r == nil {
					continue
				}
				if r.URL.Query().Has("follow") || strings.HasPrefix(r.URL.Path, "/runs/") { // they look once
					r = r.WithContext(ended)
				}
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, r)
				if answer.Code == http.StatusInternalServerError {
					t.Errorf("%q: %s", text, answer.Body)
				}
				if answer.Code < 300 && r.URL.Path != access.LoginPath && !strings.Contains(text, secret) {
					t.Errorf("without the token: %q: %d", text, answer.Code)
				}
			}
		})
		if there, err := os.ReadDir(around); err != nil || len(there) != 1 {
			t.Errorf("%q left %v (%v)", dialog, there, err)
		}
	})
}

// fuzzed returns a manager that starts no run, with one job in progress, behind its gate.
func fuzzed(t *testing.T, home string) (m *Manager, handler http.Handler) {
	log := slog.New(slog.DiscardHandler)
	m, err := Open(Config{Home: home, Command: []string{"true"}, MaxRunning: 1, MaxQueued: 4, MaxUpload: 1 << 20, Log: log,
		Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }, Free: func(string) (int64, error) { return 1 << 40, nil }})
	if err != nil {
		t.Fatal(err)
	}
	id, err := m.Submit("demo", []byte("name: demo\n"), nil, "", "")
	if err != nil {
		t.Fatal(err)
	}
	line := `{"t":"2026-01-02T03:04:05Z","kind":"clock","clock":1}` + "\n"
	if err := os.WriteFile(filepath.Join(m.root, id, rundir.JournalFile), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := access.Parse(secret)
	if err != nil {
		t.Fatal(err)
	}
	return m, access.NewGate(token, false, time.Now, log).Handler(m.Handler())
}
