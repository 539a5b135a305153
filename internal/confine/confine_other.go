//go:build !linux

package confine

import "os/exec"

// Start starts a command, without limits.
func Start(cmd *exec.Cmd, _ string, _ Limits) (Group, error) { return Group{}, cmd.Start() }

// OutOfMemory is unknown here.
func (Group) OutOfMemory() bool { return false }

// End does nothing here.
func (Group) End() {}

// Memory does nothing here: only GOMEMLIMIT, which is no hard limit, is set.
func Memory(int, int64) error { return nil }

// HostMemory is unknown here.
func HostMemory() int64 { return 0 }
