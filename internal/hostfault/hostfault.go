// Package hostfault distinguishes temporary errors of the host from those of what runs on it: a full disk, no memory or descriptors left, a
// store or cloud that does not answer.
package hostfault

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
)

// faults are errors of the system, with their meaning for the host. Texts of other processes are matched by the error's own words.
var faults = []struct {
	errno syscall.Errno
	says  string
}{
	{syscall.ENOSPC, "the disk is full"},
	{syscall.EDQUOT, "the disk quota is used up"},
	{syscall.EMFILE, "all file descriptors of a process are in use"},
	{syscall.ENFILE, "all file descriptors of the host are in use"},
	{syscall.ENOMEM, "the host's memory is used up"},
	{syscall.EAGAIN, "the host's processes or memory are used up"},
	{syscall.EIO, "the disk cannot be read or written"},
	{syscall.EROFS, "the disk is read-only"},
}

// Of returns the fault of the host that an error is about; empty = none.
func Of(err error) string {
	if err == nil || errors.Is(err, context.Canceled) {
		return ""
	}
	for _, f := range faults {
		if errors.Is(err, f.errno) {
			return f.says
		}
	}
	if Away(err) {
		return "a store or cloud does not answer: " + lastOf(err)
	}
	return ""
}

// In returns the fault of the host that a process's output is about; empty = none.
func In(text string) string {
	for _, f := range faults {
		if f.errno != syscall.EAGAIN && f.errno != syscall.EIO && strings.Contains(text, f.errno.Error()) {
			return f.says
		}
	}
	return ""
}

// Away reports whether the network or the other end failed: no answer, a broken connection, a name that cannot be resolved now, or an
// answer that it cannot serve for now.
func Away(err error) bool {
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return !name.IsNotFound
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if answer, ok := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err); ok {
		return answer.HTTPStatusCode() >= 500
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// lastOf returns the cause that an error wraps, in one line.
func lastOf(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
