package wire

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// one is a listener that accepts one connection.
type one struct {
	conns chan net.Conn
	close func()
}

func (l *one) Accept() (net.Conn, error) {
	if conn, there := <-l.conns; there {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (l *one) Close() error   { l.close(); return nil }
func (l *one) Addr() net.Addr { return &net.TCPAddr{} }

// A connection that sends no frame, or does not finish its handshake, is closed after a while.
func TestSilentConnectionsAreClosed(t *testing.T) {
	for name, config := range map[string]*tls.Config{"plain": nil, "TLS": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				l := &one{conns: make(chan net.Conn, 1)}
				l.close = sync.OnceFunc(func() { close(l.conns) })
				s := &Server{Job: 7, Log: slog.New(slog.DiscardHandler), Traffic: new(Traffic), TLS: config}
				var served sync.WaitGroup
				served.Go(func() { _ = s.Serve(ctx, l) })
				theirs, ours := net.Pipe()
				l.conns <- ours
				began := time.Now()
				_, _ = io.Copy(io.Discard, theirs) // until it is closed
				if after := time.Since(began); after > max(silence, handshakeTimeout) {
					t.Errorf("it was closed after %v", after)
				}
				cancel()
				served.Wait()
			})
		})
	}
}
