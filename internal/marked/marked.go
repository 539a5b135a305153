// Package marked keeps a machine's metadata service to its agent. A routing rule refuses the service to the user that agent and
// programs share, but not to connections with a mark, which takes a right that the agent has and does not pass on. It knows nothing
// of the requests.
package marked

import (
	"context"
	"net"
	"os"
	"syscall"

	"github.com/tierml/tierml/internal/sameuser"
)

// Variable says in the environment that connections are to be marked, and Mark is what with.
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

// KeepRight has this process keep the right to mark connections to itself: what it starts from now on does not have it.
func KeepRight() error {
	if os.Getenv(Variable) == "" {
		return nil
	}
	return drop()
}
