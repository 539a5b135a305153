//go:build !linux

package wire

import (
	"io"
	"net"
)

// newPatientReader needs Linux to be of use.
func newPatientReader(conn net.Conn) io.Reader { return conn }

func newPatientWriter(conn net.Conn) vectorWriter { return plainWriter{conn} }
