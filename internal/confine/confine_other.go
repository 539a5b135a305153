//go:build !linux

package confine

import (
	"errors"
	"os/exec"
)

// Main does nothing here.
func Main() {}

// Apart returns why commands cannot have their own namespaces here.
func Apart() error { return errors.New("this operating system has no namespaces") }

// Start starts a command as its user, in its own session, without limits.
func Start(cmd *exec.Cmd, _ string, l Limits) (Group, error) {
	cmd.SysProcAttr = attributes(l)
	return Group{Flaw: Apart()}, cmd.Start()
}

// OutOfMemory is unknown here.
func (Group) OutOfMemory() bool { return false }

// End does nothing here.
func (Group) End() {}

// Memory does nothing here: only GOMEMLIMIT, which is no hard limit, is set.
func Memory(int, int64) error { return nil }

// HostMemory is unknown here.
func HostMemory() int64 { return 0 }
