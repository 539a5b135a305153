package marked

import (
	"fmt"
	"os"
	"syscall"
)

// prctl(2): of PR_CAP_AMBIENT, the capabilities that a process without root passes on when it executes a program.
const (
	prCapAmbient         = 47
	prCapAmbientClearAll = 4
)

func set(fd uintptr) error {
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_MARK, Mark))
}

// drop applies to all threads: any may start a process.
func drop() error {
	if _, _, errno := syscall.AllThreadsSyscall6(syscall.SYS_PRCTL, prCapAmbient, prCapAmbientClearAll, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("keeping the right to mark connections from programs: %w", errno)
	}
	return nil
}
