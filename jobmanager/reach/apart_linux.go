package reach

import "syscall"

// apart puts a command into its own process group, and ends it when this program is killed.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
