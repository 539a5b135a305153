package link

import (
	"log/slog"
	"net"
	"testing"
)

// pipes is a listener that accepts a new connection on every call.
type pipes struct {
	net.Listener
	refused int // connections that were closed
}

func (p *pipes) Accept() (net.Conn, error) {
	mine, _ := net.Pipe()
	return &watched{mine, p}, nil
}

type watched struct {
	net.Conn
	p *pipes
}

func (w *watched) Close() error {
	w.p.refused++
	return w.Conn.Close()
}

// accepting ends a listener after some connections.
type accepting struct {
	*pipes
	left int
}

func (a *accepting) Accept() (net.Conn, error) {
	if a.left == 0 {
		return nil, net.ErrClosed
	}
	a.left--
	return a.pipes.Accept()
}

// The control plane without TLS has no more connections than a run can have machines; one that ends makes room.
func TestConnectionsToTheControlPlaneAreBounded(t *testing.T) {
	below := &accepting{&pipes{}, mostConnections + 3}
	b := &limitedListener{Listener: below, log: slog.New(slog.DiscardHandler)}
	var first net.Conn
	for i := range mostConnections {
		conn, err := b.Accept()
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if first == nil {
			first = conn
		}
	}
	if _, err := b.Accept(); err == nil || below.pipes.refused != 3 {
		t.Errorf("one too many: %v, and %d were closed of 3", err, below.pipes.refused)
	}
	below.left = 1
	_ = first.Close()
	if _, err := b.Accept(); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}
