// Package confine limits what processes that were started for others may take of this host, and what they see of it and of each other. It knows
// nothing about what they do.
package confine

import "syscall"

// Limits are what a process, and those that it starts, may take.
type Limits struct {
	Memory    int64 // bytes
	VCPU      int   // at the most, and its weight among others
	Processes int   // with threads

	User int    // as whom it runs; 0 = as this process
	Own  bool   // that user has no other processes on this host: they are counted, and end, with this one
	Dir  string // its working directory; what is next to it is hidden where namespaces can be had
}

// Group is what was started together. The zero Group has no limits in common.
type Group struct {
	dir  string
	own  int   // the user whose processes end with it; 0 = none
	Flaw error // what it lacks; nil: nothing
}

// Together reports whether all processes of the group count together.
func (g Group) Together() bool { return g.dir != "" }

func attributes(l Limits) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if l.User != 0 {
		a.Credential = &syscall.Credential{Uid: uint32(l.User), Gid: uint32(l.User)}
	}
	return a
}
