//go:build !linux

package wire

import "net"

// newSocket needs Linux to be of use.
func newSocket(conn net.Conn) net.Conn { return conn }
