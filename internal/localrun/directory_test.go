package localrun

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierml/tierml/fakecloud"
	"github.com/tierml/tierml/internal/config"
)

// Runs that begin at the same time never share a directory.
func TestNewDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	const n = 20
	var wait sync.WaitGroup
	dirs := make([]string, n)
	for i := range n {
		wait.Go(func() {
			var err error
			if dirs[i], err = NewDirectory("job"); err != nil {
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

// The training data is in a run's directory, and may come from a file that other users of the host cannot read.
func TestRunsAreClosedToOtherUsers(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := NewDirectory("job")
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

// What a job's script says is what the cloud does, and the cloud takes each step.
func TestScript(t *testing.T) {
	got := script([]config.Action{
		{At: 2 * time.Hour, Do: "evict", Target: "newest", Count: 3},
		{At: 3 * time.Hour, Do: "no-capacity", Of: "c3.xlarge", For: 30 * time.Minute},
		{At: 4 * time.Hour, Do: "slow-start", For: time.Hour, Boot: 5 * time.Second},
		{At: 6 * time.Hour, Do: "kill", Target: "oldest"},
	}).String()
	want := "at 2h evict newest 3\nat 3h no-capacity of c3.xlarge for 30m\nat 4h slow-start boot 5s for 1h\nat 6h kill oldest\n"
	if got != want {
		t.Errorf("script\n%s, want\n%s", got, want)
	}
	if _, err := fakecloud.ParseScript(got); err != nil {
		t.Error(err)
	}
}
