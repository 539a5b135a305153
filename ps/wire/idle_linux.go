package wire

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// idlePoller waits for the sockets whose readers have long to wait, all in one place known to the runtime's poller: an epoll instance. A
// reader that blocks in a system call keeps a thread, and meanwhile a thread of the runtime wakes up every 20 microseconds at first, and
// finally every 10 ms, to see whether its processor can be used: among many idle processes that was a third of all processor time. A socket
// is watched only while its reader is idle, so an arrival never wakes two.
//
// Its goroutine runs while there are sockets; the last one to leave waits for it.
type idlePoller struct {
	mu      sync.Mutex
	sockets int
	epoll   *os.File
	raw     syscall.RawConn
	ended   chan struct{}
	armed   map[int32]*socket // sockets that have been idle: they are in epoll
}

var idle idlePoller

// add registers a new socket. After an error it cannot wait idly.
func (p *idlePoller) add() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sockets == 0 {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return err
		}
		if err := unix.SetNonblock(fd, true); err != nil { // or the poller would not accept it
			_ = unix.Close(fd)
			return err
		}
		file := os.NewFile(uintptr(fd), "epoll")
		raw, err := file.SyscallConn()
		if err != nil {
			_ = file.Close()
			return err
		}
		p.epoll, p.raw, p.ended, p.armed = file, raw, make(chan struct{}), map[int32]*socket{}
		go p.run(raw, p.ended)
	}
	p.sockets++
	return nil
}

// remove unregisters a socket that is about to be closed.
func (p *idlePoller) remove(s *socket) {
	p.mu.Lock()
	if p.armed[int32(s.fd)] == s {
		delete(p.armed, int32(s.fd))
	}
	p.sockets--
	if p.sockets > 0 {
		p.mu.Unlock()
		return
	}
	epoll, ended := p.epoll, p.ended
	p.epoll, p.raw = nil, nil
	p.mu.Unlock()
	_ = epoll.Close()
	<-ended
}

// arm makes idlePoller wake a socket once, when it is readable.
func (p *idlePoller) arm(s *socket) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.raw == nil {
		return os.ErrClosed
	}
	operation := unix.EPOLL_CTL_MOD
	if p.armed[int32(s.fd)] != s {
		operation, p.armed[int32(s.fd)] = unix.EPOLL_CTL_ADD, s
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(s.fd)}
	failed := p.raw.Control(func(epoll uintptr) { err = unix.EpollCtl(int(epoll), operation, s.fd, &event) })
	if failed != nil {
		err = failed
	}
	if err != nil {
		delete(p.armed, int32(s.fd))
	}
	return err
}

// run wakes readable sockets, until the last one has left.
func (p *idlePoller) run(raw syscall.RawConn, ended chan struct{}) {
	defer close(ended)
	var events [64]unix.EpollEvent
	_ = raw.Read(func(epoll uintptr) bool {
		for {
			n, err := unix.EpollWait(int(epoll), events[:], 0)
			if err == unix.EINTR {
				continue
			}
			if n <= 0 { // the runtime's poller reports when there is more
				return false
			}
			p.mu.Lock()
			for _, e := range events[:n] {
				if s := p.armed[e.Fd]; s != nil {
					s.wake()
				}
			}
			p.mu.Unlock()
		}
	})
}
