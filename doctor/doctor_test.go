package doctor_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/doctor/doctortest"
)

func TestHost(t *testing.T) {
	dir := t.TempDir()
	room := func(n uint64, err error) func(string) (uint64, error) {
		return func(string) (uint64, error) { return n, err }
	}
	files := func(n uint64) func() (uint64, error) { return func() (uint64, error) { return n, nil } }
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	doctortest.Examine(t, "room", []doctor.Check{doctor.Disk(dir, room(100<<30, nil))}, doctortest.Want("disk", doctor.OK, "100.0 GB free"))
	doctortest.Examine(t, "little room", []doctor.Check{doctor.Disk(dir, room(2<<30, nil))}, doctortest.Want("disk", doctor.Warning, "checkpoint.to"))
	doctortest.Examine(t, "no room", []doctor.Check{doctor.Disk(dir, room(5<<20, nil))}, doctortest.Want("disk", doctor.Failed, "only 5 MB"))
	doctortest.Examine(t, "unknown room", []doctor.Check{doctor.Disk(dir, room(0, errors.New("broken")))}, doctortest.Want("disk", doctor.Warning, "broken"))
	doctortest.Examine(t, "a file", []doctor.Check{doctor.Disk(filepath.Join(file, "runs"), room(1, nil))}, doctortest.Want("disk", doctor.Failed, "may write to"))
	doctortest.Examine(t, "files", []doctor.Check{doctor.OpenFiles(16, files(1024))}, doctortest.Want("open files", doctor.OK, "1024"))
	doctortest.Examine(t, "few files", []doctor.Check{doctor.OpenFiles(64, files(1024))}, doctortest.Want("open files", doctor.Failed, "ulimit -n 1792"))
	doctortest.Examine(t, "port", []doctor.Check{doctor.Listening("ports", "127.0.0.1:0", "")}, doctortest.Want("ports", doctor.OK, "127.0.0.1:"))
	doctortest.Examine(t, "foreign address", []doctor.Check{doctor.Listening("ports", "192.0.2.1:0", "write an address of this host")}, doctortest.Want("ports", doctor.Failed, "of this host"))
	doctortest.Examine(t, "clock", []doctor.Check{doctor.Year(func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) })}, doctortest.Want("clock", doctor.OK, "2026"))
	doctortest.Examine(t, "no clock", []doctor.Check{doctor.Year(func() time.Time { return time.Unix(0, 0) })}, doctortest.Want("clock", doctor.Failed, "NTP"))
	open := func(_ context.Context, name string) (io.ReadCloser, error) { return os.Open(name) }
	doctortest.Examine(t, "data", []doctor.Check{doctor.Readable("data", file, open)}, doctortest.Want("data", doctor.OK, "file can be read"))
	doctortest.Examine(t, "no data", []doctor.Check{doctor.Readable("data", file+"s", open)}, doctortest.Want("data", doctor.Failed, "cannot be read"))
	if _, err := doctor.FreeBytes(dir); err != nil {
		t.Error(err)
	}
	if n, err := doctor.FileLimit(); err != nil || n == 0 {
		t.Errorf("file limit %d, %v", n, err)
	}
}

func TestEndpoint(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Unix(1_800_000_000, 0).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden) // still an answer
	}))
	defer server.Close()
	at := func(seconds int64) func() time.Time {
		return func() time.Time { return time.Unix(1_800_000_000+seconds, 0) }
	}
	for name, c := range map[string]struct {
		url    string
		now    func() time.Time
		status doctor.Status
		words  string
	}{
		"agrees":    {server.URL, at(1), doctor.OK, "agree within 1s"},
		"off":       {server.URL, at(30), doctor.Warning, "30s off"},
		"far off":   {server.URL, at(-600), doctor.Failed, "signatures will be refused"},
		"no server": {"http://127.0.0.1:1", at(0), doctor.Failed, "does not answer"},
		"nonsense":  {"::", at(0), doctor.Failed, "no address"},
	} {
		if status, words := c.status, "fetch"; name == "agrees" || name == "no server" { // the same server refuses to return a program
			if name == "agrees" {
				status, words = doctor.Failed, "403 Forbidden"
			}
			doctortest.Examine(t, name, []doctor.Check{doctor.Fetchable("program", c.url, server.Client())}, doctortest.Want("program", status, words))
		}
		doctortest.Examine(t, name, []doctor.Check{doctor.Endpoint(c.url, server.Client(), c.now)}, doctortest.Want("network and clock", c.status, c.words))
	}
}

func TestStore(t *testing.T) {
	objects := map[string]string{}
	s := doctor.Store{
		Write: func(_ context.Context, name string, write func(io.Writer) error) error {
			var b bytes.Buffer
			err := write(&b)
			objects[name] = b.String()
			return err
		},
		Open: func(_ context.Context, name string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(objects[name])), nil
		},
		Remove: func(_ context.Context, name string) error { delete(objects, name); return nil },
		Join:   func(folder string, below ...string) string { return folder + "/" + strings.Join(below, "/") },
	}
	doctortest.Examine(t, "store", []doctor.Check{s.Check("s3://b/p", "1")}, doctortest.Want("checkpoints", doctor.OK, "objects can be written"))
	if len(objects) != 0 {
		t.Errorf("left behind: %v", objects)
	}
	refuse := errors.New("access denied")
	stuck := s
	stuck.Remove = func(context.Context, string) error { return refuse }
	doctortest.Examine(t, "no removing", []doctor.Check{stuck.Check("s3://b/p", "2")}, doctortest.Want("checkpoints", doctor.Warning, "old checkpoints would stay"))
	closed := s
	closed.Write = func(context.Context, string, func(io.Writer) error) error { return refuse }
	doctortest.Examine(t, "no writing", []doctor.Check{closed.Check("s3://b/p", "3")}, doctortest.Want("checkpoints", doctor.Failed, "cannot be written"))
	other := s
	other.Open = func(context.Context, string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("?")), nil }
	doctortest.Examine(t, "other content", []doctor.Check{other.Check("s3://b/p", "4")}, doctortest.Want("checkpoints", doctor.Failed, "something other"))
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	r := doctor.Result{Check: "disk", Status: doctor.Failed, Found: "only 5 MB are free", Advice: "make room"}
	var steered strings.Builder
	evil := doctor.Result{Check: "disk\x1b[2J", Status: doctor.Failed, Found: "\x1b[2J", Advice: "\x1b[2J"}
	if err := evil.WriteLine(&steered, true); err != nil || strings.Count(steered.String(), "\x1b") != 2 || strings.Count(steered.String(), `\u001b[2J`) != 3 {
		t.Errorf("%v, %q", err, steered.String())
	}
	if err := r.WriteLine(&b, false); err != nil || b.String() != "✗ disk                 only 5 MB are free\n                       make room\n" {
		t.Errorf("%v: %q", err, b.String())
	}
	if got := doctor.Count([]doctor.Result{r, {Status: doctor.OK}}, doctor.Failed); got != 1 {
		t.Errorf("%d failed", got)
	}
}
