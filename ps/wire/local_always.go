//go:build !drill

package wire

// alwaysTCP is for programs that are built for drills: TCP connections can be broken from outside, Unix sockets cannot.
const alwaysTCP = false
