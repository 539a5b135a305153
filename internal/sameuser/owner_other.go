//go:build !linux

package sameuser

import (
	"net"
	"net/netip"
)

// Supported reports whether this system knows the owner of a connection.
const Supported = false

// closed is never called on unsupported systems.
func closed(net.Conn) bool { return true }

var errNoSocket = errUnsupported

func owner(netip.AddrPort, netip.AddrPort) (socket, error) { return socket{}, errUnsupported }

func inSession(uint64, *string) bool { return false }
