//go:build !linux

package sameusertest

import (
	"net"
	"testing"
)

// Listen skips the test: this system does not report a connection's user.
func Listen(t testing.TB, _ string) net.Listener {
	t.Helper()
	t.Skip("this system does not tell whose a connection is: run it on Linux")
	return nil
}

// Record skips the test, likewise.
func Record(t testing.TB) (address string, heard func() string) {
	t.Helper()
	t.Skip("this system does not tell whose a connection is: run it on Linux")
	return "", nil
}

// Dial skips the test: users cannot be distinguished here.
func Dial(t testing.TB, _ string) net.Conn {
	t.Helper()
	t.Skip("this system does not tell whose a connection is: run it on Linux")
	return nil
}
