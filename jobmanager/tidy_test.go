package jobmanager

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager/call"
)

// Inputs are deleted when they are old and no unfinished job needs them; querying one makes it young again.
func TestInputsThatNobodyNeeds(t *testing.T) {
	s := newSite(t)
	now := time.Now()
	var later atomic.Int64
	const keep = 7 * 24 * time.Hour // not in the manager's settings: it would delete by itself
	s.cfg.Now = func() time.Time { return now.Add(time.Duration(later.Load())) }
	s.begin()
	sum := func(c string) string { return strings.Repeat(c, 64) }
	_, client := s.served()
	whose := filepath.Join(s.home, inputsDir, s.token.SHA256())
	put := func(name string, age time.Duration) {
		t.Helper()
		dir := filepath.Join(whose, name)
		if name == sum("9") { // from an earlier version
			dir = filepath.Join(s.home, inputsDir, name)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "data.csv"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	const old = 8 * 24 * time.Hour
	for _, c := range []string{"a", "b", "c", "d", "e"} {
		put(sum(c), old)
	}
	put(sum("9"), old)
	put(sum("f"), time.Hour)
	put("notes", old)
	names := func(id, file, c string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.dir(id), file), []byte("train: {data: "+filepath.Join(whose, sum(c), "data.csv")+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.root, rundir.RecordFile), []byte("{}\n"), 0o600); err != nil { // plans of the directory's runs
		t.Fatal(err)
	}
	finished, stopped, running := s.submit(), s.submit(), s.submit()
	names(finished, submittedFile, "a")
	names(stopped, submittedFile, "b")
	names(running, rundir.JobFile, "c")
	s.clocks(finished, 1)
	s.tell(finished, "finish")
	s.until(finished, call.Finished)
	s.clocks(stopped, 1)
	if err := s.Stop(t.Context(), stopped, "me", false); err != nil {
		t.Fatal(err)
	}
	s.until(stopped, call.Stopped)
	// The client is about to submit a job with it; its content is not hashed before that starts.
	if _, err := client.Submit(t.Context(), call.Submission{Job: "train: {data: uploaded:" + sum("d") + "/data.csv}"}); err == nil || strings.Contains(err.Error(), "was not uploaded") {
		t.Error(err)
	}
	removed, err := s.inputs.removeUnneeded(keep, s.neededInputs)
	if err != nil || strings.Join(removed, " ") != sum("9")+" "+sum("a")+" "+sum("e") {
		t.Errorf("%v, %v", removed, err)
	}
	for _, name := range []string{sum("b"), sum("c"), sum("d"), sum("f"), "notes"} {
		if _, err := os.Stat(filepath.Join(whose, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(whose, sum("a"))); err == nil {
		t.Error("it is still there")
	}
	later.Store(int64(30 * 24 * time.Hour)) // the stopped job may be continued at any time
	if removed, err := s.inputs.removeUnneeded(keep, s.neededInputs); err != nil || strings.Join(removed, " ") != sum("d")+" "+sum("f") {
		t.Errorf("%v, %v", removed, err)
	}
}
