package rundir

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Runs that begin at the same time never share a directory.
func TestNew(t *testing.T) {
	t.Chdir(t.TempDir())
	const n = 20
	var wait sync.WaitGroup
	dirs := make([]string, n)
	for i := range n {
		wait.Go(func() {
			var err error
			if dirs[i], _, err = New("job"); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	slices.Sort(dirs)
	if different := slices.Compact(slices.Clone(dirs)); len(different) != n {
		t.Errorf("directories %q", dirs)
	}
	if first := filepath.Base(dirs[0]); first != "job-1" {
		t.Errorf("the first is %s", first)
	}
}

// Refused runs leave nothing, and nothing of others is removed.
func TestDiscard(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, step := range []struct {
		why    string
		before func() error
		after  []string
	}{
		{"the first run", func() error { return nil }, nil},
		{"beside a run", func() error { return os.MkdirAll("runs/job-1", 0o700) }, []string{"runs/job-1"}},
		{"in the user's own folder", func() error { return os.Remove("runs/job-1") }, []string{"runs"}},
	} {
		if err := step.before(); err != nil {
			t.Fatal(err)
		}
		_, discard, err := New("job")
		if err != nil {
			t.Fatalf("%s: %v", step.why, err)
		}
		if err := discard(); err != nil {
			t.Errorf("%s: %v", step.why, err)
		}
		left, _ := filepath.Glob("runs/*")
		if len(left) == 0 {
			left, _ = filepath.Glob("runs")
		}
		if !slices.Equal(left, step.after) {
			t.Errorf("%s: left are %q, want %q", step.why, left, step.after)
		}
	}
}

// The training data is in a run's directory, and may come from a file that other users of the host cannot read.
func TestRunsAreClosedToOtherUsers(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, _, err := New("job")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
}

func TestHold(t *testing.T) {
	dir := t.TempDir()
	if err := Hold(dir); err != nil {
		t.Fatal(err)
	}
	if err := Hold(dir); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("held twice: %v", err)
	}
}
