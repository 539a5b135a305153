package hostfault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"testing"
)

type answered int

func (a answered) Error() string       { return fmt.Sprint("status ", int(a)) }
func (a answered) HTTPStatusCode() int { return int(a) }

func TestHostFaultsAreReported(t *testing.T) {
	for want, err := range map[string]error{
		"the disk is full":       fmt.Errorf("keeping the journal: %w", &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}),
		"all file descriptors":   errors.Join(errors.New("x"), syscall.EMFILE),
		"memory is used up":      &fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.ENOMEM},
		"connection refused":     fmt.Errorf("store: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}),
		"status 503":             fmt.Errorf("store: %w", answered(503)),
		"deadline exceeded":      fmt.Errorf("store: %w", context.DeadlineExceeded),
		"server misbehaving":     &net.DNSError{Err: "server misbehaving", Name: "s3"},
		"processes or memory":    &fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.EAGAIN},
		"the disk is read-only":  syscall.EROFS,
		"the disk cannot be":     syscall.EIO,
		"disk quota is used up":  syscall.EDQUOT,
		"descriptors of the hos": syscall.ENFILE,
	} {
		if got := Of(err); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	for _, err := range []error{nil, errors.New("no such application"), fs.ErrPermission, answered(403), answered(404), &net.DNSError{Err: "no such host", IsNotFound: true}, context.Canceled,
		fmt.Errorf("stopped: %w", context.Canceled)} {
		if got := Of(err); got != "" {
			t.Errorf("%v: %q", err, got)
		}
	}
	if In("the run failed: open x: too many open files") == "" || In("rank-0 failed: OSError: [Errno 28] No space left on device") != "" || In("exit code 1") != "" {
		t.Error("texts are told apart wrongly")
	}
}
