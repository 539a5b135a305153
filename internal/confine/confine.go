// Package confine limits the resources of processes that were started for others, and what they see of this host and of each other. It does
// not know what they do.
package confine

import "syscall"

// Limits are the limits of a process and its descendants.
type Limits struct {
	Memory    int64 // bytes
	VCPU      int   // maximum, and weight among others
	Processes int   // with threads

	User int    // user to run as; 0 = this process's
	Own  bool   // that user has no other processes on this host: they are counted, and end, with this one
	Dir  string // its working directory; neighbouring folders are hidden if namespaces are available
}

// Group is a set of processes that were started together. The zero Group has no common limits.
type Group struct {
	dir  string
	own  int   // the user whose processes end with it; 0 = none
	Flaw error // what is missing; nil: nothing
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
