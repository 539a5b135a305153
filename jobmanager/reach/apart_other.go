//go:build !linux

package reach

import "syscall"

// apart puts a command into its own process group. When this program is killed, it stays until its session ends.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
