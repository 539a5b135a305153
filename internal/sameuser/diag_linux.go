package sameuser

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"
)

// The kernel's sock_diag interface finds one socket by its addresses in constant time (sock_diag(7)). Its requests are a netlink header and
// an inet_diag_req_v2, the answers an inet_diag_msg.
const (
	protocolSockDiag  = 4  // NETLINK_SOCK_DIAG
	sockDiagByFamily  = 20 // SOCK_DIAG_BY_FAMILY
	requestSize       = syscall.NLMSG_HDRLEN + 56
	answerSocketUID   = syscall.NLMSG_HDRLEN + 64
	answerSocketInode = syscall.NLMSG_HDRLEN + 68
	answerSize        = syscall.NLMSG_HDRLEN + 72
)

// errNoDiag: this kernel, or an emulation of one, has no sock_diag.
var errNoDiag = errors.New("no sock_diag")

// ownerByDiag asks the kernel for the socket that is bound to local and connected to remote.
func ownerByDiag(local, remote netip.AddrPort) (socket, error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, protocolSockDiag)
	if err != nil {
		return socket{}, errNoDiag
	}
	defer syscall.Close(fd)
	patience := syscall.NsecToTimeval(int64(time.Second)) // the kernel answers at once
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &patience); err != nil {
		return socket{}, errNoDiag
	}
	if err := syscall.Sendto(fd, diagRequest(local, remote), 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return socket{}, errNoDiag
	}
	answer := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, answer, 0)
	if err != nil {
		return socket{}, errNoDiag
	}
	return diagAnswer(answer[:n])
}

func diagRequest(local, remote netip.AddrPort) []byte {
	local, remote = unmap(local), unmap(remote)
	b := make([]byte, requestSize)
	host := binary.NativeEndian
	host.PutUint32(b[0:], requestSize)
	host.PutUint16(b[4:], sockDiagByFamily)
	host.PutUint16(b[6:], syscall.NLM_F_REQUEST)
	q := b[syscall.NLMSG_HDRLEN:]
	q[0], q[1] = syscall.AF_INET6, syscall.IPPROTO_TCP
	if local.Addr().Is4() {
		q[0] = syscall.AF_INET
	}
	host.PutUint32(q[4:], ^uint32(0)) // sockets in any state
	binary.BigEndian.PutUint16(q[8:], local.Port())
	binary.BigEndian.PutUint16(q[10:], remote.Port())
	copy(q[12:28], local.Addr().AsSlice())
	copy(q[28:44], remote.Addr().AsSlice())
	host.PutUint64(q[48:], ^uint64(0)) // no cookie
	return b
}

// diagAnswer reads an answer. A socket without an inode no longer belongs to any process; the kernel gives it to root.
func diagAnswer(b []byte) (socket, error) {
	host := binary.NativeEndian
	if len(b) < syscall.NLMSG_HDRLEN+4 {
		return socket{}, errNoDiag
	}
	if host.Uint16(b[4:]) == syscall.NLMSG_ERROR {
		if errno := syscall.Errno(-int32(host.Uint32(b[syscall.NLMSG_HDRLEN:]))); errno != syscall.ENOENT {
			return socket{}, fmt.Errorf("%w: %w", errNoDiag, errno)
		}
		return socket{}, errNoSocket
	}
	if len(b) < answerSize {
		return socket{}, errNoDiag
	}
	inode := host.Uint32(b[answerSocketInode:])
	if inode == 0 {
		return socket{}, errNoSocket
	}
	return socket{uid: int(host.Uint32(b[answerSocketUID:])), inode: uint64(inode)}, nil
}
