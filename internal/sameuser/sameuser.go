// Package sameuser keeps the other users of a host away from plaintext ports on the loopback interface: it asks the operating system for
// the owner of a connection's other end, so that clients need no secret.
//
// It knows nothing about a connection's protocol.
package sameuser

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/tierml/tierml/internal/loglimit"
)

// errUnsupported is for systems on which the owner of a connection's other end cannot be found.
var errUnsupported = errors.New("this operating system does not tell whose a connection is")

// Listener accepts connections of the user that this process runs as, and of root, and closes all others. Each refusal is logged, within
// loglimit's limits. If the system does not know (anything but Linux) it accepts all and warns once.
func Listener(l net.Listener, log *slog.Logger) net.Listener {
	return ListenerFor(l, func(int) bool { return false }, log)
}

// ListenerFor returns a Listener that also accepts connections of the users for whom admits returns true. Its server must then distinguish them by User.
func ListenerFor(l net.Listener, admits func(uid int) bool, log *slog.Logger) net.Listener {
	if _, tcp := l.Addr().(*net.TCPAddr); !tcp {
		return l
	}
	if !Supported {
		log.Warn("every user of this host can use this port", "address", l.Addr(), "err", errUnsupported)
		return l
	}
	return &listener{Listener: l, check: func(conn net.Conn) error { return check(conn, admits) }, log: log}
}

// SessionListener returns a Listener that also closes connections of processes in other sessions than this process's (setsid(2)): a process
// that has left a session cannot come back. If the system does not know it accepts all, like Listener.
func SessionListener(l net.Listener, log *slog.Logger) net.Listener {
	own := Listener(l, log)
	if checked, ok := own.(*listener); ok {
		var last string // process
		checked.check = func(conn net.Conn) error { return checkSession(conn, &last) }
	}
	return own
}

type listener struct {
	net.Listener
	check    func(net.Conn) error
	log      *slog.Logger
	refusals loglimit.Limit
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if err := l.check(conn); err != nil {
			_ = conn.Close()
			l.refusals.Warn(l.log, "connection refused", "address", l.Addr(), "err", err)
			continue
		}
		return conn, nil
	}
}

// Check returns an error unless the other end of a TCP connection within this host is a socket of our user or of root.
func Check(conn net.Conn) error { return check(conn, func(int) bool { return false }) }

func check(conn net.Conn, admits func(uid int) bool) error {
	uid, err := User(conn)
	if err != nil {
		return fmt.Errorf("connection from %v: %w", conn.RemoteAddr(), err)
	}
	if uid != 0 && uid != os.Geteuid() && !admits(uid) {
		return fmt.Errorf("connection from %v: it is of user %d, not of user %d", conn.RemoteAddr(), uid, os.Geteuid())
	}
	return nil
}

func checkSession(conn net.Conn, last *string) error {
	if err := Check(conn); err != nil {
		return err
	}
	s, err := other(conn)
	if err == nil && !inSession(s.inode, last) {
		err = errors.New("it is of a process of another session")
	}
	if err != nil {
		return fmt.Errorf("connection from %v: %w", conn.RemoteAddr(), err)
	}
	return nil
}

// socket is the other end of a connection.
type socket struct {
	uid   int
	inode uint64
}

// User returns the user of the socket at the other end of a TCP connection within this host.
func User(conn net.Conn) (uid int, err error) {
	s, err := other(conn)
	return s.uid, err
}

func other(conn net.Conn) (socket, error) {
	ours, ok1 := conn.LocalAddr().(*net.TCPAddr)
	theirs, ok2 := conn.RemoteAddr().(*net.TCPAddr)
	if !ok1 || !ok2 {
		return socket{}, errors.New("not TCP")
	}
	return owner(theirs.AddrPort(), ours.AddrPort())
}
