package runs_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/journal/journaltest"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/internal/runs"
)

// root makes a directory with journals of these runs, each a second newer than the previous one.
func root(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, name := range names {
		path := filepath.Join(dir, name, rundir.JournalFile)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "no-run-9"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// story returns a journal as text.
func story(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, e := range journaltest.New(1).Entries {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

// lock holds a directory as a run does, until the file is closed.
func lock(t *testing.T, directory *os.File) {
	t.Helper()
	if err := syscall.Flock(int(directory.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	dir := root(t, "demo-10", "demo-2", "other-1", "demo-1")
	dirs, err := runs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range dirs {
		names = append(names, filepath.Base(d))
	}
	if want := []string{"demo-1", "demo-2", "demo-10", "other-1"}; !slices.Equal(names, want) {
		t.Errorf("listed %v; want %v", names, want)
	}
	for meant, want := range map[string]string{"": "demo-1", "demo": "demo-10", "demo-2": "demo-2", "other": "other-1",
		filepath.Join(dir, "demo-2"): "demo-2"} {
		if got, err := runs.Find(dir, meant); err != nil || filepath.Base(got) != want {
			t.Errorf("%q means %s, %v; want %s", meant, got, err, want)
		}
	}
	if _, err := runs.Find(dir, "no-run"); err == nil || !strings.Contains(err.Error(), "there are demo-1, demo-2") {
		t.Errorf("an unknown one: %v", err)
	}
	if _, err := runs.Find(filepath.Join(dir, "nowhere"), ""); err == nil || !strings.Contains(err.Error(), "tierml run") {
		t.Errorf("no runs at all: %v", err)
	}
}

// A line that is being written is not read before it is complete, and following ends when no process holds the run any more, with or
// without a last line.
func TestFollow(t *testing.T) {
	dir := filepath.Join(root(t, "demo-1"), "demo-1")
	text := story(t)
	half := len(text) / 2
	path := filepath.Join(dir, rundir.JournalFile)
	if err := os.WriteFile(path, []byte(text[:half]), 0o644); err != nil {
		t.Fatal(err)
	}
	holder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	lock(t, holder)
	lines, caughtUp := 0, 0
	err = runs.Follow(t.Context(), dir, func(journal.Entry) { lines++ }, func() {
		switch caughtUp++; caughtUp {
		case 1:
			if want := strings.Count(text[:half], "\n"); lines != want {
				t.Errorf("%d lines were read of the first half; want %d", lines, want)
			}
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(text[half:]); err != nil {
				t.Fatal(err)
			}
			f.Close()
			holder.Close()
		}
	})
	if want := strings.Count(text, "\n"); err != nil || lines != want {
		t.Errorf("%d lines were read, %v; want %d", lines, err, want)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	dir := filepath.Join(root(t, "demo-1"), "demo-1")
	holder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	lock(t, holder)
	ctx, cancel := context.WithCancel(t.Context())
	if err := runs.Follow(ctx, dir, nil, cancel); err == nil {
		t.Error("it ended without an error, though the run goes on")
	}
}

func TestBadLine(t *testing.T) {
	dir := filepath.Join(root(t, "demo-1"), "demo-1")
	if err := os.WriteFile(filepath.Join(dir, rundir.JournalFile), []byte("{\"t\":\"2014-05-01T12:00:00Z\",\"kind\":\"price\"}\nrubbish\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := runs.Follow(t.Context(), dir, func(journal.Entry) { n++ }, func() {})
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("error %v after %d entries", err, n)
	}
}

// The controller that continues a run cuts off a torn last line: a reader continues with it.
func TestReaderAfterATornLineIsCutOff(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, rundir.JournalFile)
	whole := `{"t":"2014-05-01T12:00:00Z","kind":"clock","clock":1}` + "\n"
	if err := os.WriteFile(path, []byte(whole+`{"t":"2014-05-01T12:00:01Z","kind":"clo`), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := runs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	read := func() (got []int64) {
		for done := false; !done; {
			var entries []journal.Entry
			if entries, done, err = r.More(); err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				got = append(got, e.Clock)
			}
		}
		return got
	}
	if got := read(); !slices.Equal(got, []int64{1}) {
		t.Errorf("read %v", got)
	}
	if err := os.Truncate(path, int64(len(whole))); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != nil {
		t.Errorf("after the cut: %v", got)
	}
	if err := os.WriteFile(path, []byte(whole+strings.Replace(whole, `"clock":1`, `"clock":2`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := read(); !slices.Equal(got, []int64{2}) {
		t.Errorf("then: %v", got)
	}
}
