package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Memory limits the private writable memory (RLIMIT_DATA) of a process, and of each process that it starts from now on. When the
// host's memory runs out, the kernel ends them first.
func Memory(pid int, bytes int64) error {
	limit := unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}
	err := os.NewSyscallError("prlimit", unix.Prlimit(pid, unix.RLIMIT_DATA, &limit, nil))
	return errors.Join(err, adjust(pid))
}

// endUser kills all processes of a user, including those that have left their process group.
func endUser(user int) {
	for range 100 { // it may start others meanwhile
		left := false
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range all {
			info, err := os.Stat(dir)
			if err != nil {
				continue
			}
			stat, ok := info.Sys().(*syscall.Stat_t)
			if pid, err := strconv.Atoi(filepath.Base(dir)); ok && err == nil && int(stat.Uid) == user {
				left = true
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
		if !left {
			return
		}
		time.Sleep(10 * time.Millisecond) // until the kernel has removed them
	}
}

// adjust makes the kernel end a process before others.
func adjust(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("800"), 0)
}

// HostMemory returns this host's memory, in bytes; 0 = unknown.
func HostMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
