package jobmanager

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/jobmanager/call"
)

// A submitted job reads only allowed files of the job server's host, gets nothing of its environment, and writes nowhere; answers reveal
// nothing about it either.
func TestJobsReadNothingOfTheHost(t *testing.T) {
	s := newSite(t)
	allowed := t.TempDir()
	s.cfg.Allow = []string{allowed}
	t.Setenv("TIERML_TEST_SECRET", "hunter2")
	s.begin()
	_, client := s.served()
	secret := filepath.Join(s.home, "secret")
	fine := filepath.Join(allowed, "ratings.csv")
	for _, path := range []string{secret, fine} {
		if err := os.WriteFile(path, []byte("root:x:0:0:swordfish\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	submission, _ := demo(t, client)
	var data string
	for line := range strings.Lines(submission.Job) {
		if rest, found := strings.CutPrefix(line, "  data: "); found {
			data = strings.TrimSpace(rest)
		}
	}
	for _, name := range []string{secret, "/etc/shadow", filepath.Join(s.home, "token"), filepath.Join(s.root, "..", "token"), "file://" + secret, "FILE://" + secret, "File:///proc/self/environ", "submitted.yaml",
		"../../../../../../../.." + secret, "/proc/self/environ", "s3://b/${TIERML_TEST_SECRET}", "s3://b/x?profile=admin", "S3://b/x?profile=admin", "s3://b/x?endpoint=http://127.0.0.1:1"} {
		job := call.Submission{Job: strings.Replace(submission.Job, data, name, 1)}
		var plan bytes.Buffer
		for what, err := range map[string]error{"submitted": last(client.Submit(t.Context(), job)), "planned": client.Plan(t.Context(), job, &plan)} {
			if err == nil || strings.Contains(err.Error(), "swordfish") || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "no such file") {
				t.Errorf("%s is %s: %v", name, what, err)
			}
		}
	}
	if _, err := client.Submit(t.Context(), call.Submission{Job: submission.Job + "checkpoint: {to: /root}\n"}); err == nil {
		t.Error("a job writes where it likes")
	}
	if _, err := client.Submit(t.Context(), call.Submission{Job: strings.Replace(submission.Job, data, fine, 1)}); err != nil {
		t.Errorf("an allowed file: %v", err)
	}
}

func last[T any](_ T, err error) error { return err }

// Deep, wide and self-referring documents use no more memory than their size, and are refused or read.
func TestBombs(t *testing.T) {
	s := newSite(t)
	s.begin()
	_, client := s.served()
	submission, _ := demo(t, client)
	billion := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 12 {
		billion += fmt.Sprintf("a%d: &a%d [*a%d,*a%[3]d,*a%[3]d,*a%[3]d,*a%[3]d,*a%[3]d,*a%[3]d,*a%[3]d]\n", i+1, i+1, i)
	}
	values := ""
	for i := range 6000 {
		values += fmt.Sprintf("X%d: a, ", i)
	}
	for what, text := range map[string]string{
		"more values than a job has": submission.Job + "env: {" + values + "}",
		"a billion laughs":           submission.Job + billion, "laughs in parameters": strings.Replace(submission.Job, "params:", "params: &p {x: *p}\n  parms:", 1),
		"itself": "&a [*a]", "deep": strings.Repeat("[", 100_000), "deep in a field": "name: x\ntrain: " + strings.Repeat("{a: ", 50_000),
		"wide": submission.Job + "env: {" + strings.Repeat("a: b, ", 100_000) + "}", "many documents": strings.Repeat("---\nname: x\n", 10_000),
	} {
		if err := last(client.Submit(t.Context(), call.Submission{Job: text})); err == nil || len(err.Error()) > 64<<10 {
			t.Errorf("%s: %.200v", what, err)
		}
	}
	handler := s.open()
	for what, body := range map[string]string{
		"deep JSON": strings.Repeat(`{"job":`, 100_000), "a number without an end": `{"job": ` + strings.Repeat("9", 1<<20), "two": `{"job": ""} {"job": ""}`, "null": "null",
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/v1/jobs", strings.NewReader(body)))
		if w.Code/100 != 4 {
			t.Errorf("%s: %d", what, w.Code)
		}
	}
	if err := last(client.Submit(t.Context(), submission)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// What users say about themselves cannot be used to write to other people's terminals.
func TestUserNamesAreSanitized(t *testing.T) {
	s := newSite(t)
	s.begin()
	_, client := s.served()
	id := s.submit()
	for _, by := range []string{"\x1b[2J", "a\nb", strings.Repeat("x", longestName+1)} {
		if err := last(client.Stop(t.Context(), id, call.Stop{By: by})); err == nil || !strings.Contains(err.Error(), "printable") {
			t.Errorf("%q: %v", by, err)
		}
		if err := client.Scale(t.Context(), id, call.Scale{Workers: 1, By: by}, nil); err == nil || !strings.Contains(err.Error(), "printable") {
			t.Errorf("%q: %v", by, err)
		}
	}
}

// Uploads stop before the disk is full, and leave nothing; nor does an upload that was interrupted by the job server's end.
func TestUploadsLeaveRoom(t *testing.T) {
	s := newSite(t)
	left := int64(100 << 20)
	s.cfg.KeepFree, s.cfg.MaxUpload = 64<<20, 1<<30
	s.cfg.Free = func(string) (int64, error) { left -= 8 << 20; return left, nil }
	half := filepath.Join(s.home, inputsDir, strings.Repeat("0", 64), coming+"1")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "x.csv"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.begin()
	if _, err := os.Stat(filepath.Dir(half)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half an upload stays: %v", err)
	}
	w := httptest.NewRecorder()
	s.open().ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/api/v1/inputs/"+strings.Repeat("1", 64)+"/x.csv", zeros(512<<20)))
	if w.Code != http.StatusInsufficientStorage || !strings.Contains(w.Body.String(), "stay free") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if there, _ := filepath.Glob(filepath.Join(s.home, inputsDir, "*")); len(there) > 0 {
		t.Errorf("left: %q", there)
	}
}

func zeros(n int64) io.Reader { return io.LimitReader(zero{}, n) }

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// An upload is kept as it is: its unpacked contents do not concern the job server.
func TestUploadIsNotUnpacked(t *testing.T) {
	s := newSite(t)
	s.begin()
	_, client := s.served()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := io.Copy(z, zeros(64<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bomb.csv.gz")
	if err := os.WriteFile(path, bomb.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Upload(t.Context(), []string{path}, func(string, int64) {}); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(s.home, inputsDir, "*", "*", "*"))
	info, err := os.Stat(files[0])
	if err != nil || len(files) != 1 || info.Size() != int64(bomb.Len()) {
		t.Errorf("%q, %v", files, err)
	}
}

// A plan has a process of its own; their number is limited, and a client that leaves no longer waits.
func TestPlansTakeTurns(t *testing.T) {
	s := newSite(t)
	s.begin()
	for range plansAtOnce {
		if _, err := s.planning(httptest.NewRequest(http.MethodPost, "/", nil)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.planning(httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("a plan too many: %v", err)
	}
	<-s.plans
	done, err := s.planning(httptest.NewRequest(http.MethodPost, "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	done()
}

// An upload whose sender stalls or disconnects is given up and leaves nothing; others continue meanwhile.
func TestUploadIsBrokenOff(t *testing.T) {
	s := newSite(t)
	s.begin()
	address, client := s.served()
	host := strings.TrimPrefix(address, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "PUT /api/v1/inputs/%s/x.csv HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n",
		strings.Repeat("2", 64), host, s.token.Bearer())
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("%q, %v", line, err)
	}
	there := func() []string {
		files, _ := filepath.Glob(filepath.Join(s.home, inputsDir, "*", coming+"*"))
		return files
	}
	if len(there()) != 1 {
		t.Errorf("it does not come: %q", there())
	}
	if _, err := client.Jobs(t.Context()); err != nil {
		t.Errorf("others: %v", err)
	}
	_ = conn.Close()
	for deadline := time.Now().Add(time.Minute); len(there()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left: %q", there())
		}
	}
}
