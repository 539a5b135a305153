package confine

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Memory limits the private writable memory (RLIMIT_DATA) of a process, and of each process that it starts from now on. When the
// host's memory runs out, the kernel ends them first.
func Memory(pid int, bytes int64) error {
	limit := unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}
	err := os.NewSyscallError("prlimit", unix.Prlimit(pid, unix.RLIMIT_DATA, &limit, nil))
	return errors.Join(err, adjust(pid))
}

// adjust has the kernel end a process before others.
func adjust(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("800"), 0)
}

// HostMemory returns how much memory this host has, in bytes; 0 = unknown.
func HostMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
