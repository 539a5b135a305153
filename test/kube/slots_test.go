package kube_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobrun"
)

// Two jobs share four spot pods under a scheduler: the second gets its half as the first one's pods are deleted, and all when the first has
// ended. There are never more than four, even though the job server is killed and the next one has another scheduler; the model is that of
// one process.
func TestRealSlots(t *testing.T) {
	w := newWorld(t)
	home := t.TempDir()
	t.Cleanup(func() { // if it has failed
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, name := range []string{"first", "second"} {
			_ = jobrun.End(ctx, filepath.Join(home, rundir.Root, name+"-1"), "the test", true, func() {})
		}
	})
	var url string
	start := func(policy string) *exec.Cmd {
		out, err := os.Create(filepath.Join(home, policy+".log"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close() // the process has its own
		cmd := exec.CommandContext(t.Context(), w.binary, "server", "--directory", home, "--listen", "127.0.0.1:0", "--slots=4", "--scheduler", policy,
			"--allow", w.server, "--allow", store())
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.until("the job server serves", func() bool {
			text, _ := os.ReadFile(out.Name()) // not yet
			url = string(regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`).Find(text))
			return url != ""
		})
		return cmd
	}
	tell := func(dir string, arguments ...string) {
		t.Helper()
		if _, err := w.tierml(dir, append(arguments, "--server", url, "--token-file", filepath.Join(home, "token"))...); err != nil {
			t.Fatal(err)
		}
	}
	submit := func(name, clocks string) string {
		dir := w.job(name, "count: 3", "count: 1..4", "clocks: 60", "clocks: "+clocks)
		tell(dir, "run", "-y", "--detach", "job.yaml")
		return dir
	}
	have := func(of map[string]int) {
		t.Helper()
		w.until("the numbers of pods follow the grants", func() bool {
			all, as := w.spotPods(""), true
			for name, n := range of {
				pods := len(slices.DeleteFunc(slices.Clone(all), func(p string) bool { return !strings.HasPrefix(p, name+"-1-") }))
				as = as && pods == n && w.lines(home, name+"-1", journal.Join) > n
			}
			if len(all) > 4 {
				t.Fatalf("4 slots are %v", all)
			}
			return as
		})
	}
	first := start("drf")
	dir := submit("first", "200000") // with more work it would have to stay within 1.5 times the on-demand price, and buy that
	have(map[string]int{"first": 4})
	second := submit("second", "15000")
	have(map[string]int{"first": 2, "second": 2})
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // killed
	next := start("dorm")
	have(map[string]int{"first": 2, "second": 2})
	tell(dir, "stop", "first")
	have(map[string]int{"first": 0, "second": 4})
	w.until("the second has finished", func() bool {
		text, _ := os.ReadFile(filepath.Join(home, rundir.Root, "second-1", rundir.JournalFile))
		return bytes.Contains(text, []byte(`"outcome":"finished"`))
	})
	w.checkModel(second, filepath.Join(home, rundir.Root, "second-1"))
	w.checkEmpty()
	text, err := os.ReadFile(filepath.Join(home, "schedule.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", text)
	if err := next.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := next.Wait(); err != nil {
		t.Error(err)
	}
}
