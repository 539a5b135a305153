package wire

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is a stream socket that the runtime's poller does not know. The poller wakes a thread for every arrival, even while another thread
// is waiting for the same bytes; two wake-ups instead of one cost more than a small request. So a reader here waits in the call that reads,
// for at most patience. Then it is idle until idlePoller wakes it; after a long wait the next one is idle at once.
//
// One goroutine reads and one writes at a time.
type socket struct {
	net.Conn // the original, closed: for its addresses
	fd       int
	readable chan struct{} // a token in it ends waitIdle
	idle     bool          // the reader's last wait was long

	using  sync.RWMutex // held for reading while the descriptors are in use
	closed atomic.Bool

	readDeadline, writeDeadline atomic.Int64 // nanoseconds since 1970; 0 = none

	incoming, outgoing vector
	oneRead            [1][]byte      // scratch memory of the reader
	yielded            time.Time      // likewise
	polledOut          [1]unix.PollFd // scratch memory of the writer
}

const (
	// patience is how long one call waits for bytes to read, about one tick of the kernel's clock: only Close ends it earlier. An answer to
	// a request nearly always arrives within it.
	patience = time.Millisecond
	// stall is how long one call waits for room to write. It bounds how late a deadline is noticed.
	stall = 50 * time.Millisecond
	// pollFor is the approximate time to sleep and be woken.
	pollFor = 20 * time.Microsecond
	// localBuffer is how many bytes a Unix socket holds, if the system permits: rows of 256 KiB come in few wake-ups. TCP adapts its own.
	localBuffer = 1 << 20
	// yieldAfter is shorter than the scheduler's time slice.
	yieldAfter = 5 * time.Millisecond
)

// newSocket removes a TCP or Unix connection from the runtime's poller; other connections are unchanged.
func newSocket(conn net.Conn) net.Conn {
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return conn
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return conn
	}
	fd := -1
	err = raw.Control(func(original uintptr) {
		fd, _ = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err != nil || fd < 0 {
		return conn
	}
	if err := idle.add(); err != nil {
		_ = unix.Close(fd)
		return conn
	}
	_ = conn.Close() // takes it out of the poller; the connection lives on in fd
	if _, local := conn.(*net.UnixConn); local {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, localBuffer)
	}
	s := &socket{Conn: conn, fd: fd, readable: make(chan struct{}, 1)}
	if err := s.block(); err != nil {
		_ = s.Close()
	}
	s.disablePacing()
	return s
}

// disablePacing switches off, on a TCP connection within this host, an algorithm that measures the network and paces by timers, such as
// BBR: there is no network to protect from overload.
func (s *socket) disablePacing() {
	local, ok := s.LocalAddr().(*net.TCPAddr)
	remote, _ := s.RemoteAddr().(*net.TCPAddr)
	if ok && remote != nil && local.IP.Equal(remote.IP) {
		_ = unix.SetsockoptString(s.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno") // every kernel has it
	}
}

// block makes calls blocking.
func (s *socket) block() error {
	read, write := unix.NsecToTimeval(patience.Nanoseconds()), unix.NsecToTimeval(stall.Nanoseconds())
	return errors.Join(
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &read),
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &write),
		unix.SetNonblock(s.fd, false))
}

// Close ends reads and writes in progress.
func (s *socket) Close() error {
	if s.closed.Swap(true) {
		return net.ErrClosed
	}
	_ = unix.Shutdown(s.fd, unix.SHUT_RDWR)
	s.wake()
	s.using.Lock() // until they are unused
	defer s.using.Unlock()
	idle.remove(s)
	return os.NewSyscallError("close", unix.Close(s.fd))
}

// CloseWrite shuts down the sending side: the other end reads EOF.
func (s *socket) CloseWrite() error {
	s.using.RLock()
	defer s.using.RUnlock()
	if s.closed.Load() {
		return net.ErrClosed
	}
	return os.NewSyscallError("shutdown", unix.Shutdown(s.fd, unix.SHUT_WR))
}

func (s *socket) wake() {
	select {
	case s.readable <- struct{}{}:
	default: // already signalled
	}
}

// SetReadDeadline bounds reads, including one in progress.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.using.RLock()
	defer s.using.RUnlock()
	if s.closed.Load() {
		return net.ErrClosed
	}
	s.readDeadline.Store(nanoseconds(t))
	s.wake()
	return nil
}

// SetWriteDeadline bounds writes that begin to wait after it.
func (s *socket) SetWriteDeadline(t time.Time) error {
	s.writeDeadline.Store(nanoseconds(t))
	return nil
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.UnixNano(), 1)
}

// noDeadline is the remaining time without a deadline.
const noDeadline = time.Duration(math.MaxInt64)

// untilDeadline returns the remaining time; 0 or less: none.
func untilDeadline(deadline *atomic.Int64) time.Duration {
	at := deadline.Load()
	if at == 0 {
		return noDeadline
	}
	return time.Duration(at - time.Now().UnixNano())
}

// SetDeadline sets both.
func (s *socket) SetDeadline(t time.Time) error {
	_ = s.SetWriteDeadline(t)
	return s.SetReadDeadline(t)
}

// Read waits for something to read.
func (s *socket) Read(b []byte) (int, error) {
	s.oneRead[0] = b
	defer clear(s.oneRead[:])
	return s.readVector(s.oneRead[:])
}

// readRest reads data that will soon follow, into several pieces of memory.
func (s *socket) readRest(pieces [][]byte) (int, error) {
	if n := s.poll(pieces); n > 0 {
		return n, nil
	}
	return s.readVector(pieces)
}

// poll reads without sleeping; 0: nothing has arrived, or readVector will return the error. The other end is most likely in the middle of a
// system call: sleeping and being woken takes longer than the arrival of the next bytes, at both ends.
func (s *socket) poll(pieces [][]byte) int {
	s.using.RLock()
	defer s.using.RUnlock()
	if s.closed.Load() || s.readDeadline.Load() != 0 || len(pieces) == 0 {
		return 0
	}
	for began := time.Now(); ; {
		n, err := s.incoming.call(unix.SYS_RECVFROM, unix.SYS_RECVMSG, s.fd, pieces, unix.MSG_DONTWAIT)
		if err != unix.EAGAIN || time.Since(began) > pollFor {
			return n
		}
		_, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // the other end may need this processor
	}
}

// readVector reads into several pieces of memory.
func (s *socket) readVector(pieces [][]byte) (int, error) {
	s.using.RLock()
	defer s.using.RUnlock()
	for len(pieces) > 0 {
		if s.closed.Load() {
			return 0, net.ErrClosed
		}
		left := untilDeadline(&s.readDeadline)
		if left <= 0 {
			return 0, os.ErrDeadlineExceeded
		}
		s.yield()
		flags := uintptr(0)
		if s.idle {
			flags = unix.MSG_DONTWAIT
		}
		n, err := s.incoming.call(unix.SYS_RECVFROM, unix.SYS_RECVMSG, s.fd, pieces, flags)
		switch {
		case err == unix.EAGAIN:
			if err := s.waitIdle(left); err != nil {
				return 0, err
			}
		case err == unix.EINTR:
		case err != 0:
			return 0, os.NewSyscallError("recvmsg", err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
	return 0, nil
}

// yield lets the scheduler choose again, from time to time. A goroutine that it has not chosen for 10 ms loses its processor in its next
// system call, by a thread that then wakes up every 20 microseconds for a while: that costs a busy connection a third of its speed.
func (s *socket) yield() {
	if now := time.Now(); now.Sub(s.yielded) > yieldAfter {
		runtime.Gosched()
		s.yielded = now
	}
}

// waitIdle returns when there is something to read or check. It records whether that took long.
func (s *socket) waitIdle(left time.Duration) error {
	if err := idle.arm(s); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	var late <-chan time.Time
	if left != noDeadline {
		timer := time.NewTimer(left)
		defer timer.Stop()
		late = timer.C
	}
	began := time.Now()
	select {
	case <-s.readable:
	case <-late:
	}
	s.idle = time.Since(began) > patience
	return nil
}

// Write writes all of b.
func (s *socket) Write(b []byte) (int, error) {
	n, err := s.writeVector([][]byte{b})
	return int(n), err
}

func (s *socket) writeVector(pieces [][]byte) (int64, error) { return s.writeAll(pieces, 0) }

// writeMore is writeVector if more follows at once: the kernel then delays a segment that is not full.
func (s *socket) writeMore(pieces [][]byte) (int64, error) { return s.writeAll(pieces, unix.MSG_MORE) }

// push makes the kernel send delayed data. Repeating the option does that (tcp(7), TCP_NODELAY).
func (s *socket) push() error {
	if _, tcp := s.Conn.(*net.TCPConn); !tcp {
		return nil
	}
	s.using.RLock()
	defer s.using.RUnlock()
	if s.closed.Load() {
		return net.ErrClosed
	}
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
}

func (s *socket) writeAll(pieces [][]byte, flags uintptr) (written int64, err error) {
	s.using.RLock()
	defer s.using.RUnlock()
	for pieces = advance(pieces, 0); len(pieces) > 0; {
		if s.closed.Load() {
			return written, net.ErrClosed
		}
		if untilDeadline(&s.writeDeadline) <= 0 {
			return written, os.ErrDeadlineExceeded
		}
		n, err := s.outgoing.call(unix.SYS_SENDTO, unix.SYS_SENDMSG, s.fd, pieces, unix.MSG_NOSIGNAL|flags)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
		case err != 0:
			return written, os.NewSyscallError("sendmsg", err)
		default:
			written += int64(n)
			pieces = advance(pieces, n)
		}
	}
	return written, nil
}

// writeNow writes as much as there is room for.
func (s *socket) writeNow(pieces [][]byte) (int, error) { return s.writeSome(pieces, 0) }

// writeMoreNow is writeNow if more follows at once.
func (s *socket) writeMoreNow(pieces [][]byte) (int, error) {
	return s.writeSome(pieces, unix.MSG_MORE)
}

func (s *socket) writeSome(pieces [][]byte, flags uintptr) (int, error) {
	s.using.RLock()
	defer s.using.RUnlock()
	if s.closed.Load() {
		return 0, net.ErrClosed
	}
	for {
		n, err := s.outgoing.call(unix.SYS_SENDTO, unix.SYS_SENDMSG, s.fd, pieces, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT|flags)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return 0, nil
		case err != 0:
			return 0, os.NewSyscallError("sendmsg", err)
		default:
			return int(n), nil
		}
	}
}

// awaitRoom waits for a limited time until the kernel accepts more.
func (s *socket) awaitRoom(timeout time.Duration) bool {
	s.using.RLock()
	defer s.using.RUnlock()
	if s.closed.Load() {
		return false
	}
	s.polledOut[0] = unix.PollFd{Fd: int32(s.fd), Events: unix.POLLOUT}
	until := unix.NsecToTimespec(timeout.Nanoseconds())
	n, err := unix.Ppoll(s.polledOut[:], &until, nil)
	return err == nil && n == 1
}

// settle has nothing to do: the kernel has everything that writeNow accepted.
func (s *socket) settle() error { return nil }

// maxVector is the maximum number of pieces per system call.
const maxVector = 512

// vector is the memory of a system call on pieces of memory.
type vector struct {
	pieces  []unix.Iovec
	message unix.Msghdr
}

// call receives or sends as much as one system call can: one for a single piece, which is cheaper, or another for several.
func (v *vector) call(single, several uintptr, fd int, pieces [][]byte, flags uintptr) (int, syscall.Errno) {
	if len(pieces) == 1 && len(pieces[0]) > 0 {
		p := unsafe.Pointer(&pieces[0][0])
		n, _, err := syscall.Syscall6(single, uintptr(fd), uintptr(p), uintptr(len(pieces[0])), flags, 0, 0)
		return int(n), err
	}
	v.pieces = v.pieces[:0]
	for _, piece := range pieces[:min(len(pieces), maxVector)] {
		if len(piece) > 0 {
			v.pieces = append(v.pieces, unix.Iovec{Base: &piece[0]})
			v.pieces[len(v.pieces)-1].SetLen(len(piece))
		}
	}
	if len(v.pieces) == 0 {
		return 0, unix.EINTR // look again
	}
	v.message.Iov = &v.pieces[0]
	v.message.SetIovlen(len(v.pieces))
	n, _, err := syscall.Syscall(several, uintptr(fd), uintptr(unsafe.Pointer(&v.message)), flags)
	clear(v.pieces)
	return int(n), err
}
