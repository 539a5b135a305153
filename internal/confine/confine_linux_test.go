package confine

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tierml/tierml/internal/raced"
)

// hog is an environment variable of this test program's processes, which then allocate this many MiB when their input ends. With an
// argument they also make a child do that.
const hog = "TIERML_TEST_HOG"

func TestMain(m *testing.M) {
	Main()
	switch os.Getenv(role) {
	case "victim":
		victim()
	case "attacker":
		attacker()
		os.Exit(0)
	}
	mib, err := strconv.Atoi(os.Getenv(hog))
	if err != nil {
		os.Exit(m.Run())
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		os.Exit(4)
	}
	taken := make([]byte, mib<<20)
	for i := range taken {
		taken[i] = byte(i)
	}
	if len(os.Args) > 1 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), fmt.Sprintf("%s=%d", hog, mib))
		if child.Run() != nil {
			os.Exit(3)
		}
	}
	os.Exit(int(taken[0]))
}

// taking returns a command that allocates mib MiB, and with both makes a child do the same.
func taking(mib int, both bool) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	if both {
		cmd.Args = append(cmd.Args, "both")
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", hog, mib))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// A process and its child share one limit.
func TestChildSharesTheLimit(t *testing.T) {
	if raced.Detector {
		t.Skip("the race detector takes more memory than these limits: run it without -race")
	}
	if g, at := newGroup(hierarchy(mounted), "probe", Limits{Memory: 1 << 30, VCPU: 1, Processes: 100}); at == nil {
		t.Skip("no cgroup v2 that hands out memory and processes can be written to here")
	} else {
		_ = at.Close() // not needed
		g.End()
	}
	for _, c := range []struct {
		both  bool
		fails bool
	}{{false, false}, {true, true}} {
		cmd := taking(150, c.both)
		g, err := Start(cmd, "test", Limits{Memory: 250 << 20, VCPU: 1, Processes: 100})
		if err != nil {
			t.Fatal(err)
		}
		err = cmd.Wait()
		if !g.Together() {
			t.Skip("processes cannot be put into groups here")
		}
		if failed := err != nil; failed != c.fails || g.OutOfMemory() != c.fails {
			t.Errorf("both %t: %v, out of memory %t", c.both, err, g.OutOfMemory())
		}
		g.End()
		if _, err := os.Stat(g.dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", g.dir, err)
		}
	}
}

// Without cgroup v2 each process has its own limit.
func TestLimitPerProcessWithoutCgroupV2(t *testing.T) {
	if raced.Detector {
		t.Skip("the race detector takes more memory than these limits: run it without -race")
	}
	if _, at := newGroup(hierarchy(t.TempDir()), "probe", Limits{}); at != nil {
		t.Fatal("a group was made where there is no cgroup v2")
	}
	for _, c := range []struct {
		mib   int
		fails bool
	}{{50, false}, {600, true}} {
		cmd := taking(c.mib, false)
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := Memory(cmd.Process.Pid, 300<<20); err != nil {
			t.Error(err)
		}
		limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", cmd.Process.Pid))
		if err != nil || !strings.Contains(string(limits), strconv.Itoa(300<<20)) {
			t.Errorf("%v:\n%s", err, limits)
		}
		if err := stdin.Close(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); (err != nil) != c.fails {
			t.Errorf("%d MiB of 300: %v", c.mib, err)
		}
	}
}

// Groups are created in the nearest directory that delegates memory and processes, and those of dead processes are removed.
func TestNewGroup(t *testing.T) {
	root := t.TempDir()
	own := filepath.Join(root, "slice", "scope")
	dead := filepath.Join(root, "slice", prefix+"999999999-slot-1")
	for _, dir := range []string{own, dead} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for dir, controllers := range map[string]string{own: "", filepath.Dir(own): "cpu memory pids\n", root: "memory pids\n"} {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(controllers), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g, at := newGroup([]string{own, filepath.Dir(own), root}, "slot-2", Limits{Memory: 1 << 20, VCPU: 4, Processes: 64})
	if at == nil {
		t.Fatal("no group")
	}
	defer at.Close()
	if want := filepath.Join(root, "slice", fmt.Sprintf("%s%d-slot-2", prefix, os.Getpid())); g.dir != want {
		t.Errorf("%s, not %s", g.dir, want)
	}
	for file, want := range map[string]string{"memory.max": "1048576", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "64", "cpu.weight": "400", "cpu.max": "400000 100000"} {
		if text, err := os.ReadFile(filepath.Join(g.dir, file)); err != nil || string(text) != want {
			t.Errorf("%s is %q: %v", file, text, err)
		}
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("the group of a process that is gone is left: %v", err)
	}
	for events, want := range map[string]bool{"oom 3\noom_kill 0\n": false, "oom 3\noom_kill 2\n": true, "": false} {
		if err := os.WriteFile(filepath.Join(g.dir, "memory.events"), []byte(events), 0o644); err != nil {
			t.Fatal(err)
		}
		if g.OutOfMemory() != want {
			t.Errorf("%q: out of memory %t", events, !want)
		}
	}
}
