package wire

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// porter waits for the sockets whose readers have long to wait, all in one place that the runtime's poller knows: an epoll
// instance. A reader that blocks in a system call keeps a thread, and as long as one does, a thread of the runtime wakes up every
// 20 microseconds at first, and every 10 ms at last, to see whether its processor can be put to use: in a crowd of idle processes
// that was a third of all processor time. A socket is watched only while its reader dozes, so an arrival never wakes two.
//
// Its goroutine runs while there are sockets; the last one to leave waits for it.
type porter struct {
	mu       sync.Mutex
	sockets  int
	epoll    *os.File
	raw      syscall.RawConn
	ended    chan struct{}
	sleepers map[int32]*socket // that have dozed: they are in epoll
}

var house porter

// enter is for a new socket. An error means that it cannot doze.
func (p *porter) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sockets == 0 {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return err
		}
		if err := unix.SetNonblock(fd, true); err != nil { // or the poller would not take it
			_ = unix.Close(fd)
			return err
		}
		file := os.NewFile(uintptr(fd), "epoll")
		raw, err := file.SyscallConn()
		if err != nil {
			_ = file.Close()
			return err
		}
		p.epoll, p.raw, p.ended, p.sleepers = file, raw, make(chan struct{}), map[int32]*socket{}
		go p.watch(raw, p.ended)
	}
	p.sockets++
	return nil
}

// leave is for one that is about to be closed.
func (p *porter) leave(s *socket) {
	p.mu.Lock()
	if p.sleepers[int32(s.fd)] == s {
		delete(p.sleepers, int32(s.fd))
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

// rouse has a socket rung once when it can be read.
func (p *porter) rouse(s *socket) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.raw == nil {
		return os.ErrClosed
	}
	operation := unix.EPOLL_CTL_MOD
	if p.sleepers[int32(s.fd)] != s {
		operation, p.sleepers[int32(s.fd)] = unix.EPOLL_CTL_ADD, s
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(s.fd)}
	failed := p.raw.Control(func(epoll uintptr) { err = unix.EpollCtl(int(epoll), operation, s.fd, &event) })
	if failed != nil {
		err = failed
	}
	if err != nil {
		delete(p.sleepers, int32(s.fd))
	}
	return err
}

// watch rings those that can be read, until the last socket has left.
func (p *porter) watch(raw syscall.RawConn, ended chan struct{}) {
	defer close(ended)
	var events [64]unix.EpollEvent
	_ = raw.Read(func(epoll uintptr) bool {
		for {
			n, err := unix.EpollWait(int(epoll), events[:], 0)
			if err == unix.EINTR {
				continue
			}
			if n <= 0 { // the runtime's poller says when there is more
				return false
			}
			p.mu.Lock()
			for _, e := range events[:n] {
				if s := p.sleepers[e.Fd]; s != nil {
					s.ring()
				}
			}
			p.mu.Unlock()
		}
	})
}
