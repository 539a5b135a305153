package sameuser

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// A server accepts a connection at once, unless the host is very busy.
const (
	takenWithin = 5 * time.Second
	lookAgain   = 20 * time.Millisecond // maximum
)

// errClosed: the other end, of any user, has closed the connection.
var errClosed = errors.New("it was closed at once")

// Dial connects to a TCP address. On the loopback interface it is guaranteed to reach a process of this user or of root: once a server has
// ended, anybody may use its port. Other hosts' addresses, and systems that do not know a connection's owner, are only dialled.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return DialBy(ctx, net.Dialer{}, network, address)
}

// DialBy is Dial with the caller's own dialler.
func DialBy(ctx context.Context, d net.Dialer, network, address string) (net.Conn, error) {
	conn, err := d.DialContext(ctx, network, address)
	if err != nil || !Supported {
		return conn, err
	}
	if to, tcp := conn.RemoteAddr().(*net.TCPAddr); !tcp || !to.IP.IsLoopback() {
		return conn, nil
	}
	if err := awaitOwn(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// awaitOwn checks a connection that this process has opened. The kernel knows the owner of its other end once the server has accepted it.
func awaitOwn(ctx context.Context, conn net.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, takenWithin)
	defer cancel()
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, lookAgain) {
		err := Check(conn)
		if !errors.Is(err, errNoSocket) {
			return err
		}
		if closed(conn) {
			return fmt.Errorf("connection to %v: %w", conn.RemoteAddr(), errClosed)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("connection to %v: nobody takes it up: %w", conn.RemoteAddr(), context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}
