//go:build !linux

package wire

import "net"

// newSocket is useful only on Linux.
func newSocket(conn net.Conn) net.Conn { return conn }
