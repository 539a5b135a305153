package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tierml/tierml/internal/raced"
)

// wrapper is the name under which this program runs between Start and the command: it limits itself and, if it is the first process of
// namespaces, prepares them and runs the command as a child; all their processes end with it.
const wrapper = "tierml-confined"

// task is a wrapper's task.
type task struct {
	Args   []string `json:"args"` // none = only try the namespaces
	Limits Limits   `json:"limits"`
	Apart  bool     `json:"apart"`
	Data   bool     `json:"data"` // each process has the memory limit separately
}

// namespaces are a command's own namespaces: it only sees its own processes, mounts and System V memory. The network is the host's.
const namespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC

// ready records that Main was called. Otherwise a wrapper would do what this program does, such as calling Start.
var ready bool

var errNotReady = errors.New("this program does not call confine.Main")

// Main must be called first in each program that calls Start: it returns unless this process is a wrapper.
func Main() {
	ready = true
	if len(os.Args) != 2 || os.Args[0] != wrapper {
		return
	}
	var t task
	err := json.Unmarshal([]byte(os.Args[1]), &t)
	if err == nil {
		err = t.run()
	}
	fmt.Fprintln(os.Stderr, "starting a confined process:", err)
	os.Exit(1)
}

// Apart returns why commands cannot have their own namespaces here; nil: they can.
var Apart = sync.OnceValue(func() error {
	if !ready {
		return errNotReady
	}
	within, err := os.MkdirTemp("", "tierml-apart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(within)
	dir := filepath.Join(within, "dir")
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o700); err != nil {
		return err
	}
	t := task{Limits: Limits{Memory: 1 << 30, Dir: dir, Own: os.Geteuid() == 0}, Apart: true}
	cmd := exec.Command("")
	t.wrap(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("namespaces cannot be had: %w %s", err, strings.TrimSpace(string(out)))
	}
	return nil
})

// wrap makes a wrapper run a command.
func (t task) wrap(cmd *exec.Cmd) {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // words and numbers can always be marshalled
	}
	cmd.Path, cmd.Args, cmd.Err = "/proc/self/exe", []string{wrapper, string(text)}, nil
	cmd.SysProcAttr = attributes(t.Limits)
	if !t.Apart {
		return
	}
	cmd.SysProcAttr.Credential = nil // it prepares the namespaces first
	cmd.SysProcAttr.Cloneflags = namespaces
	if user := os.Geteuid(); user != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // inside, and only for the wrapper
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: user, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	}
}

// run executes the task in a wrapper. It returns only if that fails.
func (t task) run() error {
	runtime.LockOSThread() // what it starts has the limits of this thread
	if t.Apart {
		err := errors.Join(t.Limits.prepare(), unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
		if err != nil {
			return err
		}
		if t.Args == nil {
			os.Exit(0)
		}
	}
	if err := t.limit(); err != nil {
		return err
	}
	path, err := exec.LookPath(t.Args[0])
	if err != nil {
		return err
	}
	if !t.Apart {
		return syscall.Exec(path, t.Args, os.Environ())
	}
	cmd := exec.Cmd{Path: path, Args: t.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, SysProcAttr: attributes(t.Limits)}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if t.Data && raced.Detector { // limit left it out, and for a process of another user it requires a capability that hosts may lack
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -d "$0" && exec "$@"`, strconv.FormatInt(t.Limits.Memory>>10, 10)}, t.Args...)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	go func() { // the process that started this one held the other end, and has ended
		if _, err := io.Copy(io.Discard, os.Stdin); err == nil {
			os.Exit(1)
		}
	}()
	for { // including those whose parents have ended
		var how syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &how, 0, nil)
		switch {
		case err != nil && !errors.Is(err, syscall.EINTR):
			return err
		case pid == cmd.Process.Pid && how.Signaled():
			os.Exit(128 + int(how.Signal()))
		case pid == cmd.Process.Pid:
			os.Exit(how.ExitStatus())
		}
	}
}

// limit limits this process, and so its descendants.
func (t task) limit() error {
	set := func(resource int, most int64) error {
		return os.NewSyscallError("setrlimit", unix.Setrlimit(resource, &unix.Rlimit{Cur: uint64(most), Max: uint64(most)}))
	}
	var err error
	if t.Data && !(raced.Detector && t.Apart) { // the race detector makes this process itself larger than slots
		err = set(unix.RLIMIT_DATA, t.Limits.Memory)
	}
	if t.Limits.Own {
		err = errors.Join(err, set(unix.RLIMIT_NPROC, int64(t.Limits.Processes)), unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	}
	return errors.Join(err, adjust(os.Getpid()))
}

// prepare mounts what a command in its own namespaces sees. Of its parent directory it sees only its own directory, which is the only place
// where a user of its own can write.
func (l Limits) prepare() error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	err := mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	if err == nil {
		err = l.alone()
	}
	writable := []string{l.Dir, "/proc"}
	memory := fmt.Sprintf("mode=1777,size=%d", l.Memory)
	for _, at := range []struct{ dir, kind, options string }{{"/dev/shm", "tmpfs", memory}, {"/dev/mqueue", "mqueue", ""}, {"/run/lock", "tmpfs", memory}} {
		if _, missing := os.Lstat(at.dir); missing == nil && err == nil && (l.Own || at.dir != "/run/lock") {
			err = mount(at.kind, at.dir, at.kind, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, at.options)
			writable = append(writable, at.dir)
		}
	}
	if !l.Own || err != nil {
		return err
	}
	program, err := os.Executable()
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		if _, missing := os.Lstat(dir); missing != nil || err != nil || below(l.Dir, dir) || below(program, dir) {
			continue
		}
		err = mount(filepath.Join(l.Dir, "tmp"), dir, "", unix.MS_BIND, "")
		writable = append(writable, dir)
	}
	if err != nil {
		return err
	}
	all := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if errors.Is(all, unix.ENOSYS) { // before Linux 5.12
		return nil
	}
	for _, dir := range writable {
		all = errors.Join(all, unix.MountSetattr(unix.AT_FDCWD, dir, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}))
	}
	return os.NewSyscallError("mount_setattr", all)
}

// alone hides the neighbours of the command's directory.
func (l Limits) alone() error {
	own, err := os.Open(l.Dir)
	if err != nil {
		return err
	}
	defer own.Close()
	if err := mount("tmpfs", filepath.Dir(l.Dir), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=64k"); err != nil {
		return err
	}
	if err := os.Mkdir(l.Dir, 0o700); err != nil {
		return err
	}
	if err := mount(fmt.Sprintf("/proc/self/fd/%d", own.Fd()), l.Dir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := mount("", filepath.Dir(l.Dir), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return err
	}
	return os.Chdir(l.Dir)
}

func mount(source, at, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, at, kind, flags, options); err != nil {
		return fmt.Errorf("mounting %s: %w", at, err)
	}
	return nil
}

func below(path, dir string) bool { return strings.HasPrefix(path, dir+"/") }
