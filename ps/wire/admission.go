package wire

import (
	"container/list"
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxConnections is how many connections a server has at a time: more than a run has machines.
	maxConnections = 2048
	// silence is how long a connection may go without a frame at first.
	silence = 10 * time.Second
	// heldBytes bounds the bodies that are being received, of all connections together; more have to wait. Short ones are
	// not counted.
	heldBytes  = 512 << 20
	shortBytes = 64 << 10
	// bodyPatience and bodyRate say how long a body may take to arrive: its memory is claimed meanwhile.
	bodyPatience = 30 * time.Second
	bodyRate     = 1 << 20 // bytes a second
	// waitingBytes bounds the requests that wait, of all connections together, with waitingCost for each one; more are answered
	// to come again.
	waitingBytes = 256 << 20
	waitingCost  = 16 << 10
	// unsentBytes is how much may wait to be written to one connection before nothing more is read from it.
	unsentBytes = 8 << 20
)

// admission bounds what connections may take together. A connection that has shown no frame yet is silent; where there are too
// many connections the oldest silent one makes room.
type admission struct {
	once    sync.Once
	bodies  *semaphore.Weighted
	waiting *semaphore.Weighted

	mu     sync.Mutex
	count  int
	silent list.List // of net.Conn, the oldest first
}

func (c *admission) init() {
	c.once.Do(func() { c.bodies, c.waiting = semaphore.NewWeighted(heldBytes), semaphore.NewWeighted(waitingBytes) })
}

// admit takes a connection in. It gives the one that is to be closed for it, which may be itself; at is nil
// then.
func (c *admission) admit(conn net.Conn) (at *list.Element, closed net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count >= maxConnections {
		oldest := c.silent.Front()
		if oldest == nil {
			return nil, conn
		}
		closed = c.silent.Remove(oldest).(net.Conn) // it leaves by itself
	}
	c.count++
	return c.silent.PushBack(conn), closed
}

// active notes that a connection has shown a frame.
func (c *admission) active(at *list.Element) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent.Remove(at) // harmless when it is not there any more
}

func (c *admission) leave(at *list.Element) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent.Remove(at)
	c.count--
}

// bodyRoom is the room that a connection has for the body that it receives.
type bodyRoom struct {
	admission *admission
	conn      net.Conn
	held      int64
	timer     *time.Timer
}

// claim waits for room for a body. It has to arrive in time.
func (r *bodyRoom) claim(ctx context.Context, bytes int) error {
	if bytes <= shortBytes {
		return nil
	}
	if err := r.admission.bodies.Acquire(ctx, int64(bytes)); err != nil {
		return err
	}
	r.held = int64(bytes)
	r.timer = time.AfterFunc(bodyPatience+time.Duration(bytes/bodyRate)*time.Second, func() { _ = r.conn.Close() })
	return nil
}

// arrived says that the body is there. Its room is given back by release.
func (r *bodyRoom) arrived() (release func()) {
	if r.timer == nil {
		return func() {}
	}
	r.timer.Stop()
	held := r.held
	r.timer, r.held = nil, 0
	return func() { r.admission.bodies.Release(held) }
}
