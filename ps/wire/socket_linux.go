package wire

import (
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is a stream socket that the runtime's poller does not know. The poller wakes a thread for every arrival, also
// while another thread is waiting for the same bytes, as a blocking C program would; two wake-ups where one is needed
// cost more than a small request. So a reader here waits in the kernel by itself: at first for patience without a word to
// the scheduler, then as a blocked system call, which holds a thread and no processor.
//
// One goroutine reads and one writes at a time.
type socket struct {
	net.Conn // the original, closed: for its addresses
	fd       int
	wake     int // an event counter; above 0 it ends a wait for reading

	using  sync.RWMutex // held for reading while the descriptors are in use
	closed atomic.Bool

	readDeadline, writeDeadline atomic.Int64 // nanoseconds since 1970; 0 = none

	need, low int            // see expect
	vector    []unix.Iovec   // scratch of the writer
	polled    [2]unix.PollFd // scratch of the reader
}

// patience is how long a wait keeps its processor: an answer to a small request comes within it.
const patience = 100 * time.Microsecond

// newSocket takes a TCP or Unix connection out of the runtime's poller; other connections it leaves as they are.
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
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(fd)
		return conn
	}
	_ = conn.Close() // takes it out of the poller; the connection lives on in fd
	return &socket{Conn: conn, fd: fd, wake: wake, low: 1}
}

// Close ends reads and writes that are under way.
func (s *socket) Close() error {
	if s.closed.Swap(true) {
		return net.ErrClosed
	}
	_ = unix.Shutdown(s.fd, unix.SHUT_RDWR)
	s.ring()
	s.using.Lock() // until nobody uses them
	defer s.using.Unlock()
	_ = unix.Close(s.wake)
	return os.NewSyscallError("close", unix.Close(s.fd))
}

// CloseWrite tells the other end that nothing more comes.
func (s *socket) CloseWrite() error {
	s.using.RLock()
	defer s.using.RUnlock()
	if s.closed.Load() {
		return net.ErrClosed
	}
	return os.NewSyscallError("shutdown", unix.Shutdown(s.fd, unix.SHUT_WR))
}

func (s *socket) ring() {
	one := [8]byte{1}
	_, _ = unix.Write(s.wake, one[:])
}

// SetReadDeadline bounds reads, also one that is under way.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.using.RLock()
	defer s.using.RUnlock()
	if s.closed.Load() {
		return net.ErrClosed
	}
	s.readDeadline.Store(nanoseconds(t))
	s.ring()
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

// untilDeadline gives a system call's timeout, nil without a deadline; false when it has passed.
func untilDeadline(deadline *atomic.Int64) (*unix.Timespec, bool) {
	at := deadline.Load()
	if at == 0 {
		return nil, true
	}
	left := at - time.Now().UnixNano()
	timeout := unix.NsecToTimespec(max(left, 0))
	return &timeout, left > 0
}

// SetDeadline is both.
func (s *socket) SetDeadline(t time.Time) error {
	_ = s.SetWriteDeadline(t)
	return s.SetReadDeadline(t)
}

// Read waits for something to read.
func (s *socket) Read(b []byte) (int, error) {
	s.using.RLock()
	defer s.using.RUnlock()
	for len(b) > 0 {
		if s.closed.Load() {
			return 0, net.ErrClosed
		}
		timeout, inTime := untilDeadline(&s.readDeadline)
		if !inTime {
			return 0, os.ErrDeadlineExceeded
		}
		n, err := rawRead(s.fd, b)
		switch {
		case err == unix.EAGAIN:
			s.awaitReadable(timeout)
		case err == unix.EINTR:
		case err != 0:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
	return 0, nil
}

// awaitReadable returns when there is something to read, or to look at again.
func (s *socket) awaitReadable(timeout *unix.Timespec) {
	s.setLow()
	s.polled[0] = unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN}
	s.polled[1] = unix.PollFd{Fd: int32(s.wake), Events: unix.POLLIN}
	if rawPoll(s.polled[:], patience) == 0 {
		_, _ = unix.Ppoll(s.polled[:], timeout, nil)
	}
	if s.polled[1].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(s.wake, count[:])
	}
}

// expect says that n more bytes surely come, so that it is of no use to wake up for a few of them.
func (s *socket) expect(n int) { s.need = n }

// lowBytes is how much of a long body a wake-up is for: enough that there are few, little enough that the receiver copies
// while the sender goes on.
const lowBytes = 128 << 10

func (s *socket) setLow() {
	low := min(s.need, lowBytes)
	if low < lowBytes/4 {
		low = 1
	}
	if low != s.low {
		_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, low)
		s.low = low
	}
}

// Write writes all of b.
func (s *socket) Write(b []byte) (int, error) {
	n, err := s.writeVector([][]byte{b})
	return int(n), err
}

func (s *socket) writeVector(pieces [][]byte) (written int64, err error) {
	s.using.RLock()
	defer s.using.RUnlock()
	for pieces = advance(pieces, 0); len(pieces) > 0; {
		if s.closed.Load() {
			return written, net.ErrClosed
		}
		n, err := s.rawWrite(pieces)
		switch {
		case err == unix.EAGAIN:
			if !s.awaitWritable() {
				return written, os.ErrDeadlineExceeded
			}
		case err == unix.EINTR:
		case err != 0:
			return written, os.NewSyscallError("writev", err)
		default:
			written += int64(n)
			pieces = advance(pieces, n)
		}
	}
	return written, nil
}

// awaitWritable is false when the deadline has passed.
func (s *socket) awaitWritable() bool {
	request := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLOUT}}
	timeout, inTime := untilDeadline(&s.writeDeadline)
	if inTime {
		_, _ = unix.Ppoll(request, timeout, nil) // Close shuts the socket down, which ends it
	}
	return inTime
}

// advance drops the first n bytes, and empty pieces.
func advance(pieces [][]byte, n int) [][]byte {
	for len(pieces) > 0 && n >= len(pieces[0]) {
		n -= len(pieces[0])
		pieces = pieces[1:]
	}
	if n > 0 {
		pieces[0] = pieces[0][n:]
	}
	return pieces
}

// The system calls below never sleep, or for patience at most, and are not announced to the scheduler, which would give
// the processor away after some 20 microseconds. rawBytes bounds one of them: some 200 microseconds of copying.
const rawBytes = 1 << 20

func rawRead(fd int, into []byte) (int, syscall.Errno) {
	into = into[:min(len(into), rawBytes)]
	n, _, err := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&into[0])), uintptr(len(into)))
	return int(n), err
}

// rawPoll gives 0 when nothing has happened for a time.
func rawPoll(requests []unix.PollFd, timeout time.Duration) int {
	t := unix.NsecToTimespec(timeout.Nanoseconds())
	n, _, err := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&requests[0])), uintptr(len(requests)),
		uintptr(unsafe.Pointer(&t)), 0, 0, 0)
	if err != 0 {
		return -1
	}
	return int(n)
}

// maxVector is how many pieces one system call takes.
const maxVector = 256

func (s *socket) rawWrite(pieces [][]byte) (int, syscall.Errno) {
	s.vector = s.vector[:0]
	for total := 0; len(pieces) > 0 && len(s.vector) < maxVector && total < rawBytes; pieces = pieces[1:] {
		if len(pieces[0]) == 0 {
			continue
		}
		n := min(len(pieces[0]), rawBytes-total)
		v := unix.Iovec{Base: &pieces[0][0]}
		v.SetLen(n)
		s.vector = append(s.vector, v)
		total += n
	}
	n, _, err := syscall.RawSyscall(unix.SYS_WRITEV, uintptr(s.fd), uintptr(unsafe.Pointer(&s.vector[0])), uintptr(len(s.vector)))
	clear(s.vector)
	return int(n), err
}
