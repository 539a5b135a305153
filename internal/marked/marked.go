// Package marked restricts a machine's metadata service to its agent. A routing rule refuses the service to the user that agent and
// programs share, except on marked connections; marking requires a right that the agent has and does not pass on. It knows nothing about
// the requests.
package marked

import (
	"context"
	"net"
	"os"
	"syscall"

	"github.com/tierml/tierml/internal/sameuser"
)

// Variable is the environment variable that enables marking, and Mark is the mark.
const (
	Variable = "TIERML_MARK"
	Mark     = 0x7469
)

// Dial dials a metadata service.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	if os.Getenv(Variable) != "" {
		d.Control = func(_, _ string, conn syscall.RawConn) error {
			var failed error
			if err := conn.Control(func(fd uintptr) { failed = set(fd) }); err != nil {
				return err
			}
			return failed
		}
	}
	return sameuser.DialBy(ctx, d, network, address)
}

// KeepRight reserves the right to mark connections to this process: its future children do not have it.
func KeepRight() error {
	if os.Getenv(Variable) == "" {
		return nil
	}
	return drop()
}
