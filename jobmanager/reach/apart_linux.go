package reach

import "syscall"

// apart puts a command into a process group of its own, and has it end when this program is killed.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
