package confine

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// role is an environment variable of TestNeighbours' processes: victim or attacker.
const role = "TIERML_TEST_ROLE"

// knowledge is what an attacker knows.
const knowledge = "TIERML_TEST_KNOWLEDGE"

// hush is the victim's secret in files, environment, memory and shared memory.
const hush = "hush-hush"

// found is an attacker's knowledge about a victim, and then what it obtained.
type found struct {
	PIDs    []int // of the host
	Dir     string
	Shared  int // System V memory
	Queue   int
	Own     bool // it is a user of its own
	Apart   bool // it has namespaces
	Tries   int
	Results []string
}

// victim has secrets that it does not protect, and records each signal that it gets.
func victim() {
	unix.Umask(0)
	own, err := os.Getwd()
	must(err)
	for _, file := range []string{filepath.Join(own, "mine"), "/dev/shm/tierml-test-mine", filepath.Join(os.TempDir(), "mine")} {
		must(os.WriteFile(file, []byte(hush), 0o666))
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	signal.Ignore(syscall.SIGURG) // which Go's runtime sends itself
	listener, err := net.Listen("unix", filepath.Join(own, "socket"))
	must(err)
	go func() {
		for {
			conn, err := listener.Accept()
			must(err)
			_, _ = conn.Write([]byte(hush)) // to any client
			_ = conn.Close()
		}
	}()
	must(unix.Mkfifo(filepath.Join(own, "fifo"), 0o666))
	id, err := unix.SysvShmGet(0x7469, 4096, unix.IPC_CREAT|0o666)
	must(err)
	memory, err := unix.SysvShmAttach(id, 0, 0)
	must(err)
	copy(memory, hush)
	queue, _, failed := unix.Syscall(unix.SYS_MSGGET, 0x7469, unix.IPC_CREAT|0o666, 0)
	if failed != 0 {
		must(failed)
	}
	child := exec.Command("sleep", "987654")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(child.Start())
	text, err := json.Marshal(found{Dir: own, Shared: id, Queue: int(queue)})
	must(err)
	fmt.Println(string(text))
	for s := range signals {
		must(os.WriteFile(filepath.Join(own, "signalled"), []byte(s.String()), 0o666))
	}
}

func must(err error) {
	if err != nil {
		fmt.Println("FAILED", err)
		os.Exit(1)
	}
}

// attacker tries everything it can, and reports what it obtained.
func attacker() {
	var of found
	must(json.Unmarshal([]byte(os.Getenv(knowledge)), &of))
	try := func(what string, f func() error) {
		of.Tries++
		if err := f(); err == nil {
			of.Results = append(of.Results, what)
		}
	}
	for _, pid := range of.PIDs {
		of.processes(try, pid)
	}
	of.files(try)
	of.shared(try)
	of.host(try)
	text, err := json.Marshal(of)
	must(err)
	fmt.Println(string(text))
}

func readSome(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := unix.Pread(fd, make([]byte, 8), 0)
	if errors.Is(err, unix.ESPIPE) {
		n, err = unix.Read(fd, make([]byte, 8))
	}
	if n <= 0 {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	return nil
}

func number(err syscall.Errno) error {
	if err != 0 {
		return err
	}
	return nil
}

// processes tries to access a process of the victim.
func (f found) processes(try func(string, func() error), pid int) {
	at := fmt.Sprintf("/proc/%d/", pid)
	files := []string{"environ", "auxv", "maps", "smaps", "numa_maps", "pagemap", "stack", "syscall", "io", "personality", "patch_state", "mountinfo", "mem"}
	links := []string{"cwd", "root", "exe", "fd/0", "fd/1", "fd/3", "ns/mnt", "ns/pid", "ns/net", "ns/user", "ns/ipc", "ns/cgroup", "task/" + strconv.Itoa(pid) + "/cwd"}
	if f.Apart { // otherwise names of processes are visible
		files = append(files, "cmdline", "comm", "status", "stat", "statm", "sched", "limits", "wchan", "cgroup", "oom_score", "loginuid", "sessionid")
	} else { // and what is mounted
		files = slices.DeleteFunc(files, func(name string) bool { return name == "mountinfo" })
	}
	for _, name := range files {
		try("read "+at+name, func() error { return readSome(at + name) })
	}
	for _, name := range links {
		try("readlink "+at+name, func() error { _, err := os.Readlink(at + name); return err })
		try("open "+at+name, func() error { return readSome(at + name) })
		try("setns "+at+name, func() error {
			fd, err := unix.Open(at+name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Setns(fd, 0)
		})
	}
	for _, name := range []string{"mem", "oom_score_adj", "coredump_filter", "clear_refs", "timerslack_ns", "comm", "autogroup", "setgroups", "uid_map", "loginuid", "attr/current"} {
		try("write "+at+name, func() error { return os.WriteFile(at+name, []byte("1"), 0) })
	}
	for _, dir := range []string{"fd", "fdinfo", "map_files", "root", "cwd", "root/tmp", "cwd/tmp"} {
		try("list "+at+dir, func() error { _, err := os.ReadDir(at + dir); return err })
	}
	for s := range syscall.Signal(32) {
		if s != syscall.SIGKILL { // last of all
			try(fmt.Sprintf("kill -%d %d", s, pid), func() error { return unix.Kill(pid, s) })
		}
	}
	local := make([]byte, 8)
	for name, call := range map[string]func() error{
		"ptrace attach":     func() error { return unix.PtraceAttach(pid) },
		"ptrace seize":      func() error { return unix.PtraceSeize(pid) },
		"process_vm_readv":  func() error { return transfer(unix.SYS_PROCESS_VM_READV, pid, local) },
		"process_vm_writev": func() error { return transfer(unix.SYS_PROCESS_VM_WRITEV, pid, local) },
		"setpriority":       func() error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 19) },
		"setpriority group": func() error { return unix.Setpriority(unix.PRIO_PGRP, pid, 19) },
		"prlimit":           func() error { return unix.Prlimit(pid, unix.RLIMIT_CPU, &unix.Rlimit{Cur: 1, Max: 1}, nil) },
		"prlimit read":      func() error { return unix.Prlimit(pid, unix.RLIMIT_CPU, nil, &unix.Rlimit{}) },
		"sched_setaffinity": func() error { var set unix.CPUSet; set.Set(0); return unix.SchedSetaffinity(pid, &set) },
		"kcmp": func() error {
			_, _, e := unix.Syscall6(unix.SYS_KCMP, uintptr(pid), uintptr(os.Getpid()), 1, 0, 0, 0)
			return number(e)
		},
		"pidfd signal": func() error {
			return throughPidfd(pid, func(fd int) error { return unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0) })
		},
		"pidfd_getfd": func() error {
			return throughPidfd(pid, func(fd int) error { _, err := unix.PidfdGetfd(fd, 1, 0); return err })
		},
		"pidfd setns": func() error { return throughPidfd(pid, func(fd int) error { return unix.Setns(fd, unix.CLONE_NEWNS) }) },
		"ioprio_set":  func() error { _, _, e := unix.Syscall(unix.SYS_IOPRIO_SET, 1, uintptr(pid), 3<<13); return number(e) },
		"migrate_pages": func() error {
			n := uint64(1)
			_, _, e := unix.Syscall6(unix.SYS_MIGRATE_PAGES, uintptr(pid), 64, uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&n)), 0, 0)
			return number(e)
		},
		"sigqueue": func() error {
			info := [16]int64{}
			_, _, e := unix.Syscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), 15, uintptr(unsafe.Pointer(&info)))
			return number(e)
		},
		"tgkill":     func() error { return unix.Tgkill(pid, pid, unix.SIGTERM) },
		"kill group": func() error { return unix.Kill(-pid, unix.SIGTERM) },
		"setpgid":    func() error { return unix.Setpgid(0, pid) },
		"robust list": func() error {
			var head, size uintptr
			_, _, e := unix.Syscall(unix.SYS_GET_ROBUST_LIST, uintptr(pid), uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&size)))
			return number(e)
		},
		"perf_event_open": func() error {
			_, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: unix.PERF_ATTR_SIZE_VER0}, pid, -1, -1, 0)
			return err
		},
		"sched_setscheduler": func() error {
			n := int32(0)
			_, _, e := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), 3, uintptr(unsafe.Pointer(&n)))
			return number(e)
		},
		"SIGKILL": func() error { return unix.Kill(pid, unix.SIGKILL) },
	} {
		try(fmt.Sprintf("%s %d", name, pid), call)
	}
}

func throughPidfd(pid int, f func(fd int) error) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

func transfer(call uintptr, pid int, local []byte) error {
	ours := unix.Iovec{Base: &local[0], Len: uint64(len(local))}
	theirs := unix.RemoteIovec{Base: 0x400000, Len: len(local)}
	_, _, e := unix.Syscall6(call, uintptr(pid), uintptr(unsafe.Pointer(&ours)), 1, uintptr(unsafe.Pointer(&theirs)), 1, 0)
	return number(e)
}

// files tries to access the victim's files, and to change their folder.
func (f found) files(try func(string, func() error)) {
	paths := []string{f.Dir, filepath.Join(f.Dir, "mine"), filepath.Join(f.Dir, "tmp"), filepath.Join(f.Dir, "tmp", "mine"), filepath.Join(f.Dir, "socket"), filepath.Join(f.Dir, "fifo")}
	if f.Own && f.Apart { // otherwise /dev/shm is shared by all
		paths = append(paths, "/dev/shm/tierml-test-mine")
	}
	other := filepath.Join(os.TempDir(), "other")
	must(os.WriteFile(other, nil, 0o600))
	for _, path := range paths {
		for what, call := range map[string]func() error{
			"stat": func() error { _, err := os.Lstat(path); return err },
			"read": func() error { return readSome(path) },
			"list": func() error { _, err := os.ReadDir(path); return err },
			"append": func() error {
				fd, err := unix.Open(path, unix.O_WRONLY|unix.O_APPEND|unix.O_NONBLOCK, 0)
				_ = unix.Close(fd)
				return err
			},
			"truncate":  func() error { return os.Truncate(path, 0) },
			"chmod":     func() error { return os.Chmod(path, 0o777) },
			"chown":     func() error { return os.Lchown(path, os.Getuid(), os.Getgid()) },
			"rename":    func() error { return os.Rename(path, path+"-gone") },
			"replace":   func() error { return os.Rename(other, path) },
			"link":      func() error { return os.Link(path, filepath.Join(os.TempDir(), "linked")) },
			"create in": func() error { return os.WriteFile(filepath.Join(path, "x"), nil, 0o600) },
			"connect": func() error {
				conn, err := net.Dial("unix", path)
				if err == nil {
					_ = conn.Close()
				}
				return err
			},
			"utimes":   func() error { return os.Chtimes(path, time.Now(), time.Now()) },
			"setxattr": func() error { return unix.Setxattr(path, "user.x", []byte("1"), 0) },
			"inotify": func() error {
				fd, err := unix.InotifyInit()
				must(err)
				defer unix.Close(fd)
				_, err = unix.InotifyAddWatch(fd, path, unix.IN_ALL_EVENTS)
				return err
			},
			"statfs": func() error { return unix.Statfs(path, &unix.Statfs_t{}) },
			"chdir":  func() error { return os.Chdir(path) },
			"open tree": func() error {
				fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE)
				_ = unix.Close(fd)
				return err
			},
			"remove": func() error { return os.RemoveAll(path) },
		} {
			if path == f.Dir && (what == "stat" || what == "statfs" || what == "link" || what == "remove") && !f.Apart {
				continue // its name is no secret; removing a folder that cannot be entered does nothing
			}
			if what == "remove" {
				if _, err := os.Lstat(path); err != nil {
					call = func() error { return err }
				}
			}
			try(what+" "+path, call)
		}
	}
	above := filepath.Dir(f.Dir)
	try("create next to it", func() error { return os.WriteFile(filepath.Join(above, "x"), nil, 0o600) })
	try("find it", func() error {
		entries, err := os.ReadDir(above)
		if err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return filepath.Join(above, e.Name()) == f.Dir }) {
			err = os.ErrNotExist
		}
		return err
	})
	try("uncover it in a user namespace", func() error { // mounts of more powerful namespaces stay
		cmd := exec.Command("sh", "-c", `umount -l "$0"; umount -l "$(dirname "$0")"; umount -l /proc; cat "$0/mine" /proc/[0-9]*/environ | tr -d '\0' | grep `+hush, f.Dir)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
		return cmd.Run()
	})
}

// shared tries System V memory and queues, by number and by name.
func (f found) shared(try func(string, func() error)) {
	if !f.Apart {
		return // they belong to the host
	}
	try("shmat", func() error { _, err := unix.SysvShmAttach(f.Shared, 0, 0); return err })
	try("shmget", func() error { _, err := unix.SysvShmGet(0x7469, 0, 0); return err })
	try("shmctl", func() error { _, err := unix.SysvShmCtl(f.Shared, unix.IPC_RMID, nil); return err })
	try("msgget", func() error { _, _, e := unix.Syscall(unix.SYS_MSGGET, 0x7469, 0, 0); return number(e) })
	try("msgctl", func() error {
		_, _, e := unix.Syscall(unix.SYS_MSGCTL, uintptr(f.Queue), unix.IPC_RMID, 0)
		return number(e)
	})
}

// host tries to get more of the host: its mounts, groups, devices, kernel and settings.
func (f found) host(try func(string, func() error)) {
	for _, path := range []string{"/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sysrq-trigger", "/dev/mem", "/dev/kmem", "/dev/kmsg", "/dev/port",
		"/etc/passwd", "/etc/shadow", "/etc/ld.so.preload", "/sys/kernel/uevent_helper", "/sys/power/state", "/usr/bin/x", "/var/x", "/run/x", "/opt/x", "/x", "/proc/1/mem", "/proc/1/comm"} {
		try("write "+path, func() error { return os.WriteFile(path, nil, 0o600) })
	}
	for _, path := range []string{"/etc/shadow", "/root", "/proc/kcore", "/proc/1/environ", "/proc/1/mem", "/dev/mem", "/dev/kmsg"} {
		try("read "+path, func() error { return readSome(path) })
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "cgroup.procs") && strings.Count(path, "/") < 8 {
			try("join "+path, func() error { return os.WriteFile(path, []byte("0"), 0) })
		}
		return nil
	})
	for name, call := range map[string]func() error{
		"mount":        func() error { return unix.Mount("x", "/mnt", "tmpfs", 0, "") },
		"remount":      func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
		"umount proc":  func() error { return unix.Unmount("/proc", unix.MNT_DETACH) },
		"unshare":      func() error { return unix.Unshare(unix.CLONE_NEWNS) },
		"chroot":       func() error { return unix.Chroot("/") },
		"mknod":        func() error { return unix.Mknod(filepath.Join(os.TempDir(), "disk"), unix.S_IFBLK|0o600, 8<<8) },
		"reboot":       func() error { return unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF) },
		"sethostname":  func() error { return unix.Sethostname([]byte("x")) },
		"settimeofday": func() error { return unix.Settimeofday(&unix.Timeval{Sec: 1}) },
		"swapoff":      func() error { _, _, e := unix.Syscall(unix.SYS_SWAPOFF, 0, 0, 0); return number(e) },
		"init_module":  func() error { return unix.InitModule([]byte("x"), "") },
		"kexec":        func() error { _, _, e := unix.Syscall6(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0, 0, 0); return number(e) },
		"iopl":         func() error { _, _, e := unix.Syscall(unix.SYS_ACCT, 0, 0, 0); return number(e) },
		"quotactl":     func() error { _, _, e := unix.Syscall6(unix.SYS_QUOTACTL, 0x80000200, 0, 0, 0, 0, 0); return number(e) },
		"syslog":       func() error { _, err := unix.Klogctl(5, nil); return err },
		"raw socket": func() error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
			_ = unix.Close(fd)
			return err
		},
		"packets": func() error {
			fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0x300)
			_ = unix.Close(fd)
			return err
		},
		"handles": func() error {
			_, err := unix.OpenByHandleAt(unix.AT_FDCWD, unix.NewFileHandle(1, make([]byte, 8)), 0)
			return err
		},
		"setuid root": func() error { return unix.Setresuid(0, 0, 0) },
		"setgid root": func() error { return unix.Setresgid(0, 0, 0) },
		"setgroups":   func() error { return unix.Setgroups([]int{0}) },
		"nice":        func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) },
		"real time": func() error {
			n := int32(1)
			_, _, e := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, 0, 1, uintptr(unsafe.Pointer(&n)))
			return number(e)
		},
		"more memory": func() error { return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: 1 << 40, Max: 1 << 40}) },
		"less likely": func() error { return os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0) },
	} {
		try(name, call)
	}
	if f.Own {
		try("fork bomb", func() error {
			for range 100 { // 64 are allowed, with threads
				if err := exec.Command("sleep", "987654").Start(); err != nil {
					return err
				}
			}
			return nil
		})
		try("more processes", func() error { return unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}) })
		try("rights of another program", func() error { // su and sudo have a setuid bit that does not count here
			text, err := os.ReadFile("/proc/self/status")
			if err == nil && strings.Contains(string(text), "NoNewPrivs:\t1") {
				err = os.ErrPermission
			}
			return err
		})
	}
}

// Neighbours are a victim, which protects nothing itself, and an attacker that knows where everything is. It obtains nothing of the victim,
// and the victim notices nothing. They are slots of a cloud's host with and without namespaces, of two users of a computer, and of one
// without rights.
func TestNeighbours(t *testing.T) {
	if os.Getenv(role) == "nobody" {
		neighbours(t, Limits{}, Limits{}, true)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root starts processes of other users")
	}
	own := func(user int) Limits { return Limits{User: user, Own: true, Processes: 64} }
	t.Run("users and namespaces", func(t *testing.T) { neighbours(t, own(1_600_000_000), own(1_600_000_001), true) })
	t.Run("users alone", func(t *testing.T) { neighbours(t, own(1_600_000_002), own(1_600_000_003), false) })
	t.Run("two people", func(t *testing.T) { neighbours(t, Limits{User: 1_600_000_004}, Limits{User: 1_600_000_005}, true) })
	t.Run("one without rights", func(t *testing.T) {
		cmd := exec.Command("/proc/self/exe", "-test.run", "TestNeighbours$", "-test.v")
		cmd.Env = append(os.Environ(), role+"=nobody", "TMPDIR="+open(t))
		cmd.SysProcAttr = attributes(Limits{User: 1_600_000_006})
		cmd.Dir = "/"
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Error(err)
		}
	})
}

// open returns a directory that every user can reach and write to.
func open(t *testing.T) string {
	dir, err := os.MkdirTemp("", "tierml-neighbours-")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func neighbours(t *testing.T, of, by Limits, apart bool) {
	if apart && Apart() != nil {
		t.Skip(Apart())
	}
	home := open(t)
	if err := os.Chmod(home, 0o711); err != nil {
		t.Fatal(err)
	}
	begin := func(l Limits, as, knows string) (*exec.Cmd, Group, *bufio.Reader) {
		dir := filepath.Join(home, as)
		tmp := filepath.Join(dir, "tmp")
		if err := os.MkdirAll(tmp, 0o700); err != nil {
			t.Fatal(err)
		}
		if l.User != 0 {
			for _, d := range []string{dir, tmp} {
				if err := os.Chown(d, l.User, l.User); err != nil {
					t.Fatal(err)
				}
			}
		}
		l.Memory, l.VCPU = 2<<30, 1
		if apart {
			l.Dir = dir
		}
		program, err := os.ReadFile("/proc/self/exe")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "program"), program, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(filepath.Join(dir, "program"))
		cmd.Dir, cmd.Env, cmd.Stderr = dir, []string{role + "=" + as, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + tmp, "SECRET=" + hush, knowledge + "=" + knows}, os.Stderr
		if _, err := cmd.StdinPipe(); err != nil { // it ends with this process
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		g, err := Start(cmd, as, l)
		if err != nil || g.Flaw != nil {
			t.Fatal(err, g.Flaw)
		}
		return cmd, g, bufio.NewReader(out)
	}
	say := func(from *bufio.Reader) (f found) {
		text, err := from.ReadBytes('\n')
		if err := errors.Join(err, json.Unmarshal(text, &f)); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return f
	}
	victim, its, said := begin(of, "victim", "")
	knows := say(said)
	knows.PIDs, knows.Own, knows.Apart = append(children(victim.Process.Pid), victim.Process.Pid), of.Own, apart
	text, err := json.Marshal(knows)
	if err != nil {
		t.Fatal(err)
	}
	attacker, group, heard := begin(by, "attacker", string(text))
	had := say(heard)
	t.Logf("%d tries at %v", had.Tries, knows.PIDs)
	if had.Tries < 300 || len(had.Results) > 0 {
		t.Errorf("%d of %d tries had something: %s", len(had.Results), had.Tries, strings.Join(had.Results, ", "))
	}
	if err := attacker.Wait(); err != nil {
		t.Error(err)
	}
	group.End()
	mine, err := os.ReadFile(filepath.Join(knows.Dir, "mine"))
	if string(mine) != hush {
		t.Errorf("the victim's file is %q: %v", mine, err)
	}
	if by, err := os.ReadFile(filepath.Join(knows.Dir, "signalled")); err == nil {
		t.Errorf("the victim had %s", by)
	}
	usual, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range knows.PIDs {
		if nice, err := unix.Getpriority(unix.PRIO_PROCESS, pid); err != nil || nice != usual {
			t.Errorf("process %d has priority %d: %v", pid, nice, err)
		}
	}
	_ = victim.Process.Kill()
	_ = victim.Wait() // killed
	its.End()
	for _, pid := range knows.PIDs {
		for deadline := time.Now().Add(10 * time.Second); unix.Kill(pid, 0) == nil && (of.Own || apart); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d is left", pid)
			}
		}
	}
}

// children returns the processes below one, however deep.
func children(of int) (all []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", of))
	if text == nil {
		return nil
	}
	for _, f := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(f)
		if err == nil {
			all = append(append(all, pid), children(pid)...)
		}
	}
	return all
}
