package wire

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// patience is how long a read waits in the kernel before it waits as goroutines usually do. An answer to a small request
// comes within it, and is then taken as fast as by a blocking C program: no other thread has to notice the event and
// wake this one.
const patience = 500 * time.Microsecond

// maxPatient bounds the threads that wait in the kernel at a time. Others wait as usual.
const maxPatient = 4

// patient counts those that wait in the kernel, or want to.
var patient atomic.Int32

// patientReader reads from a socket.
type patientReader struct {
	raw  syscall.RawConn
	into []byte
	need int // how much surely comes; 0: at least something
	low  int // the socket's low-water mark
	n    int
	err  error
	try  func(fd uintptr) bool // kept, so that a read allocates nothing
}

// newPatientReader gives conn itself when it is not a socket.
func newPatientReader(conn net.Conn) io.Reader {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return conn
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return conn
	}
	r := &patientReader{raw: raw, low: 1}
	r.try = func(fd uintptr) bool {
		if r.read(int(fd)) {
			return true
		}
		r.setLow(int(fd))
		waitFor(int(fd), unix.POLLIN)
		return r.read(int(fd))
	}
	return r
}

// Read obeys the connection's deadlines and its Close, late by patience at most.
func (r *patientReader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	r.into = b
	err := r.raw.Read(r.try)
	r.into = nil
	switch {
	case err != nil:
		return 0, err
	case r.err != nil:
		return 0, r.err
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}

// expect says that n more bytes surely come, so that it is of no use to wake up for a few of them.
func (r *patientReader) expect(n int) { r.need = n }

// lowBytes is how much of a long body a wake-up is for: enough that there are few, little enough that the receiver copies
// while the sender goes on.
const lowBytes = 128 << 10

func (r *patientReader) setLow(fd int) {
	low := min(r.need, lowBytes)
	if low < lowBytes/4 {
		low = 1
	}
	if low != r.low {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, low)
		r.low = low
	}
}

// read is false when nothing is there yet.
func (r *patientReader) read(fd int) bool {
	for {
		n, err := rawRead(fd, r.into)
		switch err {
		case 0:
			r.n, r.err = n, nil
			return true
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		r.n, r.err = 0, os.NewSyscallError("read", err)
		return true
	}
}

// The system calls below never sleep, or for patience at most. They do not tell the scheduler, which would give the
// processor to another thread within some 20 microseconds, have that one look for work, and need another wake-up to go on
// here: that costs more than a small request. What may take longer than usual is only a stop of all goroutines.

// rawBytes bounds one system call: some 200 microseconds of copying.
const rawBytes = 1 << 20

func rawRead(fd int, into []byte) (int, syscall.Errno) {
	into = into[:min(len(into), rawBytes)]
	n, _, err := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&into[0])), uintptr(len(into)))
	return int(n), err
}

func rawPoll(fd int, events int16) {
	request := unix.PollFd{Fd: int32(fd), Events: events}
	timeout := unix.NsecToTimespec(patience.Nanoseconds())
	_, _, _ = syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&request)), 1, uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
}

// rawWrite sends some of what is left.
func (w *patientWriter) rawWrite(fd int) (int, syscall.Errno) {
	var vector [16]unix.Iovec
	total, used := 0, 0
	for _, piece := range w.pieces {
		if used == len(vector) || total == rawBytes {
			break
		}
		if len(piece) == 0 {
			continue
		}
		n := min(len(piece), rawBytes-total)
		vector[used].Base = &piece[0]
		vector[used].SetLen(n)
		used++
		total += n
	}
	n, _, err := syscall.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&vector[0])), uintptr(used))
	return int(n), err
}

func waitFor(fd int, events int16) {
	if patient.Add(1) <= maxPatient {
		rawPoll(fd, events)
	}
	patient.Add(-1)
}

// patientWriter writes to a socket.
type patientWriter struct {
	raw    syscall.RawConn
	pieces [][]byte // what is left
	n      int64
	err    error
	try    func(fd uintptr) bool
}

func newPatientWriter(conn net.Conn) vectorWriter {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return plainWriter{conn}
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return plainWriter{conn}
	}
	w := &patientWriter{raw: raw}
	w.try = func(fd uintptr) bool {
		for waited := false; ; {
			switch w.write(int(fd)) {
			case nil:
				if len(w.pieces) == 0 {
					return true
				}
				waited = false
			case unix.EAGAIN:
				if waited {
					return false
				}
				waitFor(int(fd), unix.POLLOUT)
				waited = true
			default:
				return true
			}
		}
	}
	return w
}

func (w *patientWriter) writeVector(pieces [][]byte) (int64, error) {
	w.pieces, w.n, w.err = pieces, 0, nil
	err := w.raw.Write(w.try)
	w.pieces = nil
	if err == nil {
		err = w.err
	}
	return w.n, err
}

// write sends some of what is left.
func (w *patientWriter) write(fd int) error {
	for {
		n, err := w.rawWrite(fd)
		switch err {
		case 0:
			w.n += int64(n)
			w.advance(n)
			return nil
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return err
		}
		w.err = os.NewSyscallError("writev", err)
		return w.err
	}
}

// advance drops the first n bytes.
func (w *patientWriter) advance(n int) {
	for len(w.pieces) > 0 && n >= len(w.pieces[0]) {
		n -= len(w.pieces[0])
		w.pieces[0] = nil
		w.pieces = w.pieces[1:]
	}
	if n > 0 {
		w.pieces[0] = w.pieces[0][n:]
	}
}
