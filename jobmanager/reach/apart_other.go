//go:build !linux

package reach

import "syscall"

// apart puts a command into a process group of its own. When this program is killed, it stays until its session ends.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
