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
	// maxConnections bounds a server's connections: more than the machines of a run.
	maxConnections = 2048
	// silence bounds the time to a connection's first frame.
	silence = 10 * time.Second
	// heldBytes bounds the bodies being received over all connections; further ones wait. Short ones do not count.
	heldBytes  = 512 << 20
	shortBytes = 64 << 10
	// bodyPatience and bodyRate bound how long a body may take to arrive, since its memory is reserved meanwhile.
	bodyPatience = 30 * time.Second
	bodyRate     = 1 << 20 // bytes a second
	// waitingBytes bounds the requests that wait, of all connections together, with waitingCost for each; further ones have to retry.
	waitingBytes = 256 << 20
	waitingCost  = 16 << 10
	// unsentBytes bounds what may wait to be written to a connection before reading from it stops.
	unsentBytes = 8 << 20
)

// admission bounds the resources of all connections. A connection without a frame yet is silent; if there are too many connections, the
// oldest silent one is closed.
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

// admit admits a connection. It returns the connection to close for it, possibly conn itself, in which case at is nil.
func (c *admission) admit(conn net.Conn) (at *list.Element, closed net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count >= maxConnections {
		oldest := c.silent.Front()
		if oldest == nil {
			return nil, conn
		}
		closed = c.silent.Remove(oldest).(net.Conn) // it removes itself
	}
	c.count++
	return c.silent.PushBack(conn), closed
}

// active records that a connection has sent a frame.
func (c *admission) active(at *list.Element) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent.Remove(at) // no effect if it is no longer there
}

func (c *admission) leave(at *list.Element) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent.Remove(at)
	c.count--
}

// bodyRoom is the memory reserved for the body that a connection receives.
type bodyRoom struct {
	admission *admission
	conn      net.Conn
	held      int64
	timer     *time.Timer
}

// claim waits until there is room for a body. The body must then arrive in time.
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

// arrived records that the body has arrived. release frees its room.
func (r *bodyRoom) arrived() (release func()) {
	if r.timer == nil {
		return func() {}
	}
	r.timer.Stop()
	held := r.held
	r.timer, r.held = nil, 0
	return func() { r.admission.bodies.Release(held) }
}
