package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"time"
)

// secured is a connection with TLS.
type secured struct {
	*tls.Conn
	below *corked
}

// handshakeTimeout bounds the handshake: a silent client is dropped after it.
const handshakeTimeout = 10 * time.Second

// secure does the handshake and returns the connection to use.
func secure(ctx context.Context, conn net.Conn, wrap func(net.Conn, *tls.Config) *tls.Conn, config *tls.Config) (net.Conn, error) {
	config = config.Clone()
	config.DynamicRecordSizingDisabled = true // messages are sent whole: small records would only add cost
	conn = newSocket(conn)
	below := newCorked(conn)
	over := wrap(below, config)
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := over.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("TLS with %s: %w", conn.RemoteAddr(), err)
	}
	return &secured{Conn: over, below: below}, nil
}

// newReader returns the fastest way to read from a connection.
func newReader(conn net.Conn) io.Reader {
	if s, ok := conn.(*secured); ok {
		return &tlsReader{tls: s.Conn, below: s.below}
	}
	return conn
}

// newWriter returns the fastest way to write to a connection.
func newWriter(conn net.Conn) vectorWriter {
	if s, ok := conn.(*secured); ok {
		return &tlsWriter{tls: s.Conn, below: s.below}
	}
	if w, ok := conn.(vectorWriter); ok {
		return w
	}
	return plainWriter{conn}
}

// SecureDialer dials with one dialer and speaks TLS over it. The server's certificate must be for the address's host,
// unless config names another.
func SecureDialer(dial Dialer, config *tls.Config) Dialer {
	if dial == nil {
		dial = dialAnyUser
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		own := config
		if own.ServerName == "" {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				_ = conn.Close()
				return nil, err
			}
			own = config.Clone()
			own.ServerName = host
		}
		return secure(ctx, conn, tls.Client, own)
	}
}
