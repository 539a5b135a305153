//go:build !drill

package wire

// alwaysTCP is set in programs built for drills: TCP connections can be broken from outside, Unix sockets cannot.
const alwaysTCP = false
