package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// mounted is the usual mount point of cgroup v2.
const mounted = "/sys/fs/cgroup"

// Start starts a command within limits, in its own session: processes of one session may send each other SIGCONT, whatever their users. If
// cgroup v2 is writable, a process and its descendants share the limits; otherwise each has the memory limit separately. If the kernel
// permits, they have their own namespaces, and end when their standard input does, from which nothing can be read. Names are unique within
// this process.
func Start(cmd *exec.Cmd, name string, l Limits) (Group, error) {
	if !ready {
		return Group{}, errNotReady
	}
	var flaw error
	if l.Dir != "" {
		flaw = Apart()
	}
	t := task{Args: cmd.Args, Limits: l, Apart: l.Dir != "" && flaw == nil}
	g, at := newGroup(hierarchy(mounted), name, l)
	if at != nil {
		within := *cmd
		t.wrap(&within)
		within.SysProcAttr.UseCgroupFD, within.SysProcAttr.CgroupFD = true, int(at.Fd())
		err := within.Start()
		_ = at.Close() // it was for the start only
		if err == nil {
			*cmd = within
		} else { // not every process may be put into a group that can be created; any other problem will recur
			g.End()
			at = nil
		}
	}
	if at == nil {
		g, t.Data = Group{}, true
		t.wrap(cmd)
		if err := cmd.Start(); err != nil {
			return Group{}, err
		}
	}
	g.Flaw = flaw
	if l.Own {
		g.own = l.User
	}
	return g, nil
}

// hierarchy returns this process's directory in the cgroup v2 mounted at root, and its parents; nil: there is none.
func hierarchy(root string) (dirs []string) {
	var fs unix.Statfs_t
	if unix.Statfs(root, &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		path, is := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !is {
			continue
		}
		for path = filepath.Clean(path); path != "/" && path != "."; path = filepath.Dir(path) {
			dirs = append(dirs, filepath.Join(root, path))
		}
		return append(dirs, root)
	}
	return nil
}

// newGroup creates a group in the nearest directory that distributes memory and processes, and is writable. A directory with processes
// cannot distribute resources, so it is mostly one above our own: that of a service manager with delegation, or root's. nil: there is none.
func newGroup(dirs []string, name string, l Limits) (Group, *os.File) {
	for _, above := range dirs {
		controllers, err := os.ReadFile(filepath.Join(above, "cgroup.subtree_control"))
		hands := strings.Fields(string(controllers))
		if err != nil || !slices.Contains(hands, "memory") || !slices.Contains(hands, "pids") {
			continue
		}
		sweep(above)
		g := Group{dir: filepath.Join(above, fmt.Sprintf("%s%d-%s", prefix, os.Getpid(), name))}
		if os.Mkdir(g.dir, 0o755) != nil {
			continue
		}
		if at, err := g.limit(l, slices.Contains(hands, "cpu")); err == nil {
			return g, at
		}
		g.End()
	}
	return Group{}, nil
}

// prefix begins a group's name; the number of the process that created it follows.
const prefix = "tierml-"

// sweep removes the groups of processes that were killed. One with a remaining process stays.
func sweep(above string) {
	left, _ := filepath.Glob(filepath.Join(above, prefix+"*"))
	for _, dir := range left {
		maker, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if pid, err := strconv.Atoi(maker); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.Remove(dir)
		}
	}
}

func (g Group) limit(l Limits, weighs bool) (*os.File, error) {
	set := func(file string, value int64) error {
		return os.WriteFile(filepath.Join(g.dir, file), strconv.AppendInt(nil, value, 10), 0o644)
	}
	err := errors.Join(set("memory.max", l.Memory), set("pids.max", int64(l.Processes)))
	if err == nil && weighs {
		const period = 100_000 // microseconds
		most := fmt.Sprintf("%d %d", max(l.VCPU, 1)*period, period)
		err = errors.Join(set("cpu.weight", int64(min(max(100*l.VCPU, 1), 10_000))),
			os.WriteFile(filepath.Join(g.dir, "cpu.max"), []byte(most), 0o644))
	}
	if err != nil {
		return nil, err
	}
	_ = set("memory.swap.max", 0)  // only if there is swap
	_ = set("memory.oom.group", 1) // since Linux 4.19: half a job is useless
	return os.Open(g.dir)
}

// OutOfMemory reports whether a process was ended because the group ran out of memory.
func (g Group) OutOfMemory() bool {
	text, _ := os.ReadFile(filepath.Join(g.dir, "memory.events"))
	for line := range strings.Lines(string(text)) {
		if n, is := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); is {
			return n != "0"
		}
	}
	return false
}

// End ends all processes of the group, and the group.
func (g Group) End() {
	if g.own != 0 {
		defer endUser(g.own)
	}
	if !g.Together() {
		return
	}
	_ = os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0o644) // since Linux 5.14; the process group was killed, too
	for range 100 {
		if err := os.Remove(g.dir); err == nil || !errors.Is(err, syscall.EBUSY) {
			return
		}
		time.Sleep(10 * time.Millisecond) // until the kernel has removed them
	}
}
