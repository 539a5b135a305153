//go:build !linux

package sameuser

import (
	"net"
	"net/netip"
)

// Supported reports whether this system knows the owner of a connection.
const Supported = false

// Never used: unsupported systems do not call it.
func closed(net.Conn) bool { return true }

var errNoSocket = errUnsupported

func owner(netip.AddrPort, netip.AddrPort) (int, error) { return 0, errUnsupported }
