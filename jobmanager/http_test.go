package jobmanager

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/jobmanager/call"
)

// served serves the site's manager behind a gate, and returns a client with the token.
func (s *site) served() (address string, client *call.Client) {
	s.t.Helper()
	token := access.Random()
	s.token = token
	log := slog.New(slog.DiscardHandler)
	server := httptest.NewUnstartedServer(nil)
	server.Config = access.Server(access.NewGate(token, false, time.Now, log).Handler(s.Handler()), log)
	server.Start()
	s.t.Cleanup(server.Close)
	client, err := call.New(server.URL, token, "")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(client.Close)
	return server.URL, client
}

// open returns the manager's handler for a client with all rights.
func (s *site) open() http.Handler {
	token := access.Random()
	gate := access.NewGate(token, false, time.Now, slog.New(slog.DiscardHandler)).Handler(s.Handler())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", token.Bearer())
		gate.ServeHTTP(w, r)
	})
}

// demo returns a job whose files are uploaded.
func demo(t *testing.T, client *call.Client) (submission call.Submission, sent int) {
	t.Helper()
	job, err := config.Load("../examples/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range job.Files() {
		name, err := client.Upload(t.Context(), []string{*path}, func(string, int64) { sent++ })
		if err != nil {
			t.Fatal(err)
		}
		*path = name
	}
	return call.Submission{Job: string(job.Resolved())}, sent
}

func TestSubmitOverHTTP(t *testing.T) {
	s := newSite(t)
	s.begin()
	_, client := s.served()
	submission, sent := demo(t, client)
	if again, _ := demo(t, client); sent != 3 || again.Job != submission.Job {
		t.Errorf("%d files were sent", sent)
	}
	if _, sent := demo(t, client); sent != 0 {
		t.Errorf("%d files were sent again", sent)
	}
	var plan bytes.Buffer
	if err := client.Plan(t.Context(), submission, &plan); err != nil || !strings.HasPrefix(plan.String(), "a plan for submitted.yaml") {
		t.Errorf("%q, %v", &plan, err)
	}
	job, err := client.Submit(t.Context(), submission)
	if err != nil || job.Run != "demo-1" || job.Submitted == nil {
		t.Fatalf("%+v, %v", job, err)
	}
	text, err := os.ReadFile(filepath.Join(s.dir("demo-1"), submittedFile))
	if err != nil || strings.Contains(string(text), call.Uploaded) || !strings.Contains(string(text), filepath.Join(s.home, inputsDir)) {
		t.Errorf("%s, %v", text, err)
	}
	var shown bytes.Buffer
	if err := client.File(t.Context(), "demo-1", submittedFile, &shown); err != nil || strings.Count(shown.String(), call.Uploaded) != 3 || strings.Contains(shown.String(), s.home) {
		t.Errorf("clients are shown paths of the host: %s, %v", &shown, err)
	}
	s.clocks("demo-1", 1)
	for _, meant := range []string{"demo-1", "demo", "latest"} {
		if job, err := client.Job(t.Context(), meant); err != nil || job.Run != "demo-1" {
			t.Errorf("%s: %+v, %v", meant, job, err)
		}
	}
	if _, err := client.Job(t.Context(), "other"); err == nil || !strings.Contains(err.Error(), `no job "other" here; there are demo-1`) {
		t.Error(err)
	}
	var answers []call.Standing
	err = client.Scale(t.Context(), "demo", call.Scale{Workers: 2, Wait: true}, func(a call.Standing) { answers = append(answers, a) })
	if err != nil || len(answers) != 2 || !answers[1].Reached || answers[1].Workers != 10 {
		t.Errorf("%+v, %v", answers, err)
	}
	if err := client.Scale(t.Context(), "demo", call.Scale{Workers: -9}, nil); err == nil || err.Error() != "9 workers cannot be removed" {
		t.Error(err)
	}
	if _, err := client.Stop(t.Context(), "demo", call.Stop{By: "me"}); err != nil {
		t.Fatal(err)
	}
	s.until("demo-1", call.Stopped)
	if job, err := client.Resume(t.Context(), "demo-1"); err != nil || call.State(job.State).Over() {
		t.Errorf("%+v, %v", job, err)
	}
	s.tell("demo-1", "finish")
	s.until("demo-1", call.Finished)
	if _, err := client.Resume(t.Context(), "demo-1"); err == nil || !strings.Contains(err.Error(), "nothing to resume") {
		t.Error(err)
	}
}

// A follower sees each event once, across restarts of the run and the server.
func TestFollowing(t *testing.T) {
	s := newSite(t)
	s.begin()
	_, client := s.served()
	id := s.submit()
	var heard []journal.Entry
	over := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	go func() {
		over <- client.FollowEvents(ctx, id, func(e journal.Entry) { heard = append(heard, e) }, func() {})
	}()
	s.kill(id)
	s.when(id, "started again", func(r record) bool { return r.Starts == 2 && r.State == call.Running })
	s.tell(id, "finish")
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	entries, _, err := journal.ReadFile(filepath.Join(s.dir(id), "journal.jsonl"))
	if err != nil || len(heard) != len(entries) {
		t.Errorf("%d of %d entries, %v", len(heard), len(entries), err)
	}
	lines, err := client.Events(t.Context(), id, false, 2, func(journal.Entry) {}, func() {})
	if err != nil || lines != len(entries)-2 {
		t.Errorf("%d lines after the first two, %v", lines, err)
	}
	var file bytes.Buffer
	if err := client.File(t.Context(), id, "journal.jsonl", &file); err != nil || bytes.Count(file.Bytes(), []byte("\n")) != len(entries) {
		t.Errorf("%d bytes, %v", file.Len(), err)
	}
	if err := client.Logs(t.Context(), id, []string{"nobody"}, false, &file); err == nil || !strings.Contains(err.Error(), `no log of "nobody"`) {
		t.Error(err)
	}
	if err := client.Logs(t.Context(), id, nil, false, &file); err != nil {
		t.Error(err)
	}
}

// Without the token nothing can be seen or done, whatever the path.
func TestNothingWithoutTheToken(t *testing.T) {
	s := newSite(t)
	s.begin()
	id := s.submit()
	s.clocks(id, 1)
	address, _ := s.served()
	for _, authorization := range []string{"", "Bearer ", access.Random().Bearer(), "Basic dXNlcjpwYXNz"} {
		for _, path := range []string{"GET /", "GET /metrics", "GET /api/runs", "GET /runs/" + id, "GET /api/v1/jobs", "POST /api/v1/jobs", "POST /api/v1/plan",
			"GET /api/v1/jobs/" + id, "POST /api/v1/jobs/" + id + "/stop", "POST /api/v1/jobs/" + id + "/resume", "POST /api/v1/jobs/" + id + "/scale",
			"GET /api/v1/jobs/" + id + "/events", "GET /api/v1/jobs/" + id + "/logs", "GET /api/v1/jobs/" + id + "/files/journal.jsonl",
			"PUT /api/v1/inputs/" + strings.Repeat("0", 64) + "/x", "GET /nothing"} {
			method, path, _ := strings.Cut(path, " ")
			request, err := http.NewRequestWithContext(t.Context(), method, address+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			if authorization != "" {
				request.Header.Set("Authorization", authorization)
			}
			response, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusUnauthorized || strings.Contains(string(text), id) {
				t.Errorf("%s %s with %q: %s: %s", method, path, authorization, response.Status, text)
			}
		}
	}
	if r := s.until(id, call.Running); r.Stop {
		t.Error("it was stopped")
	}
	wrong, err := call.New(address, access.Random(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	if _, err := wrong.Jobs(t.Context()); err == nil || !strings.Contains(err.Error(), "--token-file") || call.Temporary(err) {
		t.Error(err)
	}
}

// With the token one may run jobs; but files other than those of runs and inputs are neither read nor written.
func TestOddRequests(t *testing.T) {
	s := newSite(t)
	s.begin()
	_, client := s.served()
	secret := filepath.Join(s.home, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := s.submit()
	for _, name := range []string{"../../secret", "submission.json", "control.json", "authority.pem", "..%2F..%2Fsecret", "logs"} {
		var got bytes.Buffer
		if err := client.File(t.Context(), id, name, &got); err == nil || got.Len() > 0 {
			t.Errorf("%s: %q", name, &got)
		}
	}
	for _, id := range []string{"..", ".", "../..", "%2e%2e"} {
		if job, err := client.Job(t.Context(), id); err == nil {
			t.Errorf("%s: %+v", id, job)
		}
	}
	for want, text := range map[string]string{
		"is missing": "name: x\ncloud: local\n", "not valid YAML": "\t", "plain file name": "name: x\ntrain: {data: \"uploaded:../../secret\"}",
		"was not uploaded": "name: x\ntrain: {data: \"uploaded:" + strings.Repeat("0", 64) + "/x\"}",
	} {
		if _, err := client.Submit(t.Context(), call.Submission{Job: text}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "tierml-") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := client.Submit(t.Context(), call.Submission{Job: strings.Repeat("x", maxRequest)}); err == nil || !strings.Contains(err.Error(), "the request is larger than") {
		t.Error(err)
	}
	large := filepath.Join(t.TempDir(), "large.csv")
	if err := os.WriteFile(large, make([]byte, s.cfg.MaxUpload+1), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := client.Upload(t.Context(), []string{large}, func(string, int64) {})
	if refused, ok := errors.AsType[call.Refused](err); ok && !strings.Contains(refused.Error(), "s3://BUCKET/large.csv") || err == nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.home, inputsDir, "*", "*", "*")); left != nil {
		t.Errorf("left behind: %q", left)
	}
}

// An upload that arrives corrupted gets no name; nor can one file replace another.
func TestUploadMustMatchItsChecksum(t *testing.T) {
	s := newSite(t)
	s.begin()
	handler := s.open()
	sum := "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of "hello"
	put := func(path, body string) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPut, path, strings.NewReader(body)))
		return w.Code
	}
	for path, want := range map[string]int{
		"/api/v1/inputs/" + sum + "/x.csv": http.StatusUnprocessableEntity, "/api/v1/inputs/" + sum[1:] + "/x.csv": http.StatusBadRequest,
		"/api/v1/inputs/" + sum + "/.x": http.StatusBadRequest, "/api/v1/inputs/" + sum + "/..%2Fx": http.StatusBadRequest,
	} {
		if got := put(path, "goodbye"); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if got := put("/api/v1/inputs/"+sum+"/x.csv", "hello"); got != http.StatusCreated {
		t.Errorf("the file itself: %d", got)
	}
}
