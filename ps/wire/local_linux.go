package wire

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// ownUser reports whether the process at the other end of a Unix socket runs as this user.
func ownUser(conn net.Conn) bool {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	own := false
	err = raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		own = err == nil && int(peer.Uid) == os.Getuid()
	})
	return err == nil && own
}
