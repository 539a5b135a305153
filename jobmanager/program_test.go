package jobmanager

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/jobrun"
	"github.com/tierml/tierml/program/filenames"
	"github.com/tierml/tierml/program/mirror"
	"github.com/tierml/tierml/program/pack"
)

// programOf returns a job with a program whose folder is uploaded, and one secret.
func programOf(t *testing.T, client *call.Client) call.Submission {
	t.Helper()
	work := t.TempDir()
	packed := filepath.Join(t.TempDir(), "workdir"+filenames.PackedEnding)
	file, err := os.Create(packed)
	if err == nil {
		err = os.WriteFile(filepath.Join(work, "train.py"), []byte("print('https://example.com')\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = pack.Pack(t.Context(), work, file, pack.Options{})
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	upload := func(name string) string {
		name, err := client.Upload(t.Context(), []string{name}, func(string, int64) {})
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	return call.Submission{Secrets: map[string]string{"KEY": "hush-4711"}, Job: "name: own\ncloud: local\nresources: {count: 1, any_of: [{type: c3.large}]}\n" +
		"run: curl -O https://example.com/model && python3 train.py\nenvs: {FROM: 's3://b/c'}\nworkdir: " + upload(packed) + "\nhours: 1\nsecrets: {KEY: {}}\nlocal:\n  prices: " +
		upload("../examples/data/aws-us-west-1a-c3-2014.csv.gz") + "\n  catalog: " + upload("../examples/data/aws-ondemand-us-west-1-2015-04-02.csv") +
		"\n  start: 2014-03-11T12:00:00Z\n"}
}

// A submitted program runs on this host only where that is allowed. Its secrets are in one file that no other user can read, until the job
// has finished; the job server's own variables and files cannot be used as secrets.
func TestSubmittedProgram(t *testing.T) {
	s := newSite(t)
	s.begin()
	_, client := s.served()
	submission := programOf(t, client)
	refused := func(change func(*call.Submission), want string) {
		t.Helper()
		job := call.Submission{Job: submission.Job, Secrets: map[string]string{"KEY": "hush-4711"}}
		change(&job)
		if _, err := client.Submit(t.Context(), job); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("want %s; %v", want, err)
		}
	}
	refused(func(*call.Submission) {}, "would run commands on the job server's own host")
	s.cfg.Allow = []string{config.AllowPrograms}
	s.begin()
	_, client = s.served() // with another token, which does not own the first one's uploads
	submission = programOf(t, client)
	text := func(from, to string) func(*call.Submission) {
		return func(job *call.Submission) { job.Job = strings.Replace(job.Job, from, to, 1) }
	}
	refused(text("KEY: {}", "KEY: {file: /etc/shadow}"), "names a variable or a file of the job server's host")
	refused(text("KEY: {}", "KEY: {env: AWS_SECRET_ACCESS_KEY}"), "names a variable or a file of the job server's host")
	refused(text("workdir: ", "workdir: /etc #"), "is not among the uploaded files")
	refused(func(job *call.Submission) { job.Secrets = nil }, "its value did not come with the job")
	refused(func(job *call.Submission) { job.Secrets["OTHER"] = "x" }, `no secret "OTHER"`)

	var plan bytes.Buffer
	if err := client.Plan(t.Context(), submission, &plan); err != nil {
		t.Error(err)
	}
	job, err := client.Submit(t.Context(), submission)
	if err != nil {
		t.Fatal(err)
	}
	s.clocks(job.Run, 1)
	file := filepath.Join(s.dir(job.Run), jobrun.SecretsFile)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	values, err := jobrun.Secrets(func(name string) (string, bool) { return s.dir(job.Run), name == jobrun.SecretsVariable })
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := values("KEY"); v != "hush-4711" || !ok {
		t.Errorf("the run gets %q", v)
	}
	if v, ok := values("HOME"); ok {
		t.Errorf("the run gets %q of the environment", v)
	}
	s.tell(job.Run, "finish")
	s.until(job.Run, call.Finished)
	err = filepath.WalkDir(s.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, []byte("hush-4711")) {
			t.Errorf("the secret is left in %s, %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The saved state of a program is sent unchanged, including files that are left out when a program's folder is sent.
func TestStateOverHTTP(t *testing.T) {
	s := newSite(t)
	var free atomic.Int64
	s.cfg.KeepFree, s.cfg.Free = 1<<20, func(string) (int64, error) { return free.Load(), nil }
	s.begin()
	_, client := s.served()
	dir, from := s.dir("own-1"), t.TempDir()
	for name, text := range map[string]string{"at": "7\n", ".git/config": "x", ".tierignore": "at\n"} {
		path := filepath.Join(from, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	state := jobrun.State{Checkpoints: filepath.Join(dir, rundir.CheckpointsDir)}
	m, err := mirror.Open(t.Context(), mirror.Config{Store: state.Store(), Key: "rank-0", Attempt: 1, Dir: from})
	if err != nil {
		t.Fatal(err)
	}
	saved, err := m.Save(t.Context(), mirror.Selection{Last: true})
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, jobrun.StateFile), []byte(`{"checkpoints": "`+state.Checkpoints+`"}`), 0o600),
			os.WriteFile(filepath.Join(dir, rundir.JournalFile), []byte(`{"t":"2026-10-01T00:00:00Z","kind":"cut","clock":1}`+"\n"), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "rank-0")
	take := func(r io.Reader) error { return pack.Unpack(t.Context(), r, to, "", 0) }
	get := func(program, manifest string) error {
		for { // the board finds runs gradually
			err := client.State(context.Background(), "own-1", program, manifest, saved.Digest, take)
			if refused, ok := errors.AsType[call.Refused](err); !ok || refused.Status != http.StatusNotFound || !strings.Contains(err.Error(), "no job") {
				return err
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	free.Store(s.cfg.KeepFree)
	if err := get("rank-0", saved.Manifest); err == nil || !strings.Contains(err.Error(), "stay free") {
		t.Errorf("a state for which there is no room: %v", err)
	}
	free.Store(1 << 40)
	if err := get("rank-0", saved.Manifest); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.home, scratchDir, "*")); len(left) > 0 || s.inputs.reserved.Load() != 0 {
		t.Errorf("left: %q, %d bytes reserved", left, s.inputs.reserved.Load())
	}
	for _, name := range []string{"at", ".git/config", ".tierignore"} {
		if _, err := os.Stat(filepath.Join(to, name)); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range [][2]string{{"../..", saved.Manifest}, {"rank-0", "../../../state"}, {"rank-0", ""}} {
		if err := get(bad[0], bad[1]); err == nil {
			t.Errorf("%v was answered", bad)
		}
	}
	if err := get("rank-0", "00000009-00000009"); err == nil || !strings.Contains(err.Error(), "ask for the newest") {
		t.Errorf("a state that is gone: %v", err)
	}
}

// Temporary files of requests, including secrets, are in the job server's directory, and what a killed one left is removed.
func TestRequestsLeaveNothing(t *testing.T) {
	s := newSite(t)
	s.cfg.Allow = []string{config.AllowPrograms}
	s.begin()
	_, client := s.served()
	submission := programOf(t, client)
	submission.Secrets = map[string]string{"KEY": "hush-4711"}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if err := client.Plan(t.Context(), submission, io.Discard); err != nil {
		t.Error(err)
	}
	half := filepath.Join(s.home, scratchDir, "1", jobrun.SecretsFile)
	if err := errors.Join(os.MkdirAll(filepath.Dir(half), 0o700), os.WriteFile(half, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s.begin()
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
