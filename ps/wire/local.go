package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
)

// Workers reach a server of their own host by a Unix socket in addition to its TCP port, which is faster for small messages. Its name
// follows from the job and the TCP address, so it need not be communicated: it is in Linux's abstract name space, which exists once per
// network name space, just like addresses. Both ends make sure that the other belongs to the same user.

// localName returns the name of the Unix socket for a TCP address.
func localName(job uint64, address string) string {
	return fmt.Sprintf("@tierml-%016x-%s", job, address)
}

var errOtherUser = errors.New("the other end of the socket belongs to another user")

// ListenLocal adds to a TCP listener a socket for callers on this host. Where such sockets do not exist it returns an error, and callers
// use TCP.
func ListenLocal(job uint64, beside net.Addr) (net.Listener, error) {
	tcp, ok := beside.(*net.TCPAddr)
	if !ok || runtime.GOOS != "linux" {
		return nil, fmt.Errorf("listen beside %s: %w", beside, errors.ErrUnsupported)
	}
	address := tcp.String()
	if tcp.IP.IsUnspecified() {
		address = fmt.Sprintf(":%d", tcp.Port)
	}
	listener, err := net.Listen("unix", localName(job, address))
	if err != nil {
		return nil, fmt.Errorf("listen beside %s: %w", beside, err)
	}
	return localListener{listener}, nil
}

// localListener accepts only connections of this user.
type localListener struct{ net.Listener }

func (l localListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || ownUser(conn) {
			return conn, err
		}
		_ = conn.Close()
	}
}

// DialLocal uses a Unix socket if the address belongs to this host and a server of the job listens there, otherwise TCP.
func DialLocal(job uint64) Dialer {
	return func(ctx context.Context, address string) (net.Conn, error) {
		if conn, err := dialUnix(ctx, job, address); err == nil {
			return conn, nil
		}
		return DialTCP(ctx, address)
	}
}

func dialUnix(ctx context.Context, job uint64, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || runtime.GOOS != "linux" || alwaysTCP || !onThisHost(host) {
		return nil, errors.ErrUnsupported
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", localName(job, address))
	if err != nil {
		if conn, err = d.DialContext(ctx, "unix", localName(job, ":"+port)); err != nil {
			return nil, err
		}
	}
	if !ownUser(conn) {
		_ = conn.Close()
		return nil, errOtherUser
	}
	return conn, nil
}

// onThisHost reports whether an IP address belongs to this host. Names are not resolved: they use TCP.
func onThisHost(host string) bool {
	ip := net.ParseIP(host)
	if ip == nil || ip.IsLoopback() {
		return ip != nil
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addresses {
		if own, _, found := strings.Cut(a.String(), "/"); found && ip.Equal(net.ParseIP(own)) {
			return true
		}
	}
	return false
}
