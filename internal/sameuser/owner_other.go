//go:build !linux

package sameuser

import "net/netip"

// Supported reports whether this system tells whose a connection is.
const Supported = false

func owner(netip.AddrPort, netip.AddrPort) (int, error) { return 0, errUnsupported }
