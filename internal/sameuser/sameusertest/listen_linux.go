package sameusertest

import (
	"bytes"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// nobody is a user that owns nothing.
const nobody = 65534

// Listen returns a listener that belongs to another user, like the connections that it accepts; it skips the test if it cannot create one.
func Listen(t testing.TB, address string) net.Listener {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can play another user: run it as root")
	}
	var l net.Listener
	var err error
	asNobody(func() { l, err = net.Listen("tcp", address) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return listener{l}
}

// Record plays another user who has occupied a port of this host. Heard returns everything that was sent to it, and ends it.
func Record(t testing.TB) (address string, heard func() string) {
	t.Helper()
	l := Listen(t, "127.0.0.1:0")
	var said bytes.Buffer
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second)) // for clients that stay connected and send nothing
			_, _ = io.Copy(&said, conn)
			_ = conn.Close()
		}
	}()
	heard = sync.OnceValue(func() string { _ = l.Close(); <-over; return said.String() })
	t.Cleanup(func() { heard() })
	return l.Addr().String(), heard
}

// Dial returns a connection of another user; it skips the test if it cannot create one.
func Dial(t testing.TB, address string) (conn net.Conn) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can play another user: run it as root")
	}
	var err error
	asNobody(func() { conn, err = net.Dial("tcp", address) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

type listener struct{ net.Listener }

func (l listener) Accept() (conn net.Conn, err error) {
	asNobody(func() { conn, err = l.Listener.Accept() })
	return conn, err
}

// asNobody makes what f creates belong to nobody: a socket belongs to the user as whom its thread accesses files.
func asNobody(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked: the thread ends with this goroutine
		_ = syscall.Setfsuid(nobody)
		f()
	}()
	<-done
}
