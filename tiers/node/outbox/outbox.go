// Package outbox keeps messages until the other side has them, so that a conversation outlives its connections: each side of the control
// plane has one. It does not know what the messages are.
package outbox

import (
	"context"
	"errors"
	"sync"
)

// ErrReplaced says that a later connection has taken over.
var ErrReplaced = errors.New("replaced by a later connection")

// Queue holds messages in order. Each has a number, from 1 on; the other side acknowledges by number, and after a broken connection
// unacknowledged messages are sent again.
//
// Invariant: waiting[i] has number dropped+1+i, and the first `sent` of waiting went out on this connection.
type Queue[M any] struct {
	limit int

	mu      sync.Mutex
	waiting []M
	dropped uint64        // the highest acknowledged number
	sent    int           // of waiting
	line    *Line[M]      // the present connection
	owed    bool          // an acknowledgement must be sent
	got     uint64        // highest number received from the other side
	wake    chan struct{} // holds a token when there may be something to send
	empty   chan struct{} // closed and replaced whenever the last waiting message is acknowledged
}

// New returns an empty queue for at most limit unacknowledged messages; 0 = no limit.
func New[M any](limit int) *Queue[M] {
	return &Queue[M]{limit: limit, wake: make(chan struct{}, 1), empty: make(chan struct{})}
}

// Put adds a message; false if the queue is full.
func (b *Queue[M]) Put(m M) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit > 0 && len(b.waiting) >= b.limit {
		return false
	}
	b.waiting = append(b.waiting, m)
	b.signal()
	return true
}

// Connect begins a new connection: the other side has everything up to received, and gets the rest again.
func (b *Queue[M]) Connect(received uint64) *Line[M] {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(received)
	b.sent = 0
	b.line = &Line[M]{box: b}
	b.signal()
	return b.line
}

// Acknowledged forgets messages that the other side has.
func (b *Queue[M]) Acknowledged(received uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(received)
}

func (b *Queue[M]) drop(received uint64) {
	if received <= b.dropped {
		return
	}
	n := min(int(received-b.dropped), len(b.waiting))
	clear(b.waiting[:n])
	b.waiting = b.waiting[n:]
	b.dropped += uint64(n)
	b.sent = max(b.sent-n, 0)
	if n > 0 && len(b.waiting) == 0 {
		close(b.empty)
		b.empty = make(chan struct{})
	}
}

// Received records a number from the other side and reports whether it is new; repeated ones must be ignored. Number 0 stands for messages
// that are not counted, and is never new.
func (b *Queue[M]) Received(number uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if number == 0 {
		return false
	}
	b.owed = true
	b.signal()
	if number <= b.got {
		return false
	}
	b.got = number
	return true
}

// Got returns the highest number received.
func (b *Queue[M]) Got() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got
}

// Forget starts over with a new other side: the old one's messages are forgotten, and only waiting messages that keep accepts stay.
func (b *Queue[M]) Forget(keep func(M) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var kept []M
	for _, m := range b.waiting {
		if keep(m) {
			kept = append(kept, m)
		}
	}
	b.waiting, b.dropped, b.sent, b.line, b.got, b.owed = kept, 0, 0, nil, 0, false
}

// Envelope is what Next returns: a message or, with number 0, only the acknowledgement Got.
type Envelope[M any] struct {
	Number  uint64
	Message M
	Got     uint64
}

// Line is one connection's view of a queue.
type Line[M any] struct{ box *Queue[M] }

// Next waits for the next thing to send. Only one goroutine may call it at a time. Once a later connection has begun it returns
// ErrReplaced.
func (l *Line[M]) Next(ctx context.Context) (Envelope[M], error) {
	for {
		if letter, ok, err := l.box.take(l); ok || err != nil {
			return letter, err
		}
		select {
		case <-l.box.wake:
		case <-ctx.Done():
			return Envelope[M]{}, context.Cause(ctx)
		}
	}
}

func (b *Queue[M]) take(line *Line[M]) (l Envelope[M], ok bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if line != b.line {
		b.signal() // the token may have been meant for the later connection
		return l, false, ErrReplaced
	}
	l.Got = b.got
	switch {
	case b.sent < len(b.waiting):
		l.Message = b.waiting[b.sent]
		b.sent++
		l.Number = b.dropped + uint64(b.sent)
	case !b.owed:
		return l, false, nil
	}
	b.owed = false
	return l, true, nil
}

// Drain waits until the other side has everything.
func (b *Queue[M]) Drain(ctx context.Context) error {
	b.mu.Lock()
	empty, done := b.empty, len(b.waiting) == 0
	b.mu.Unlock()
	if done {
		return nil
	}
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *Queue[M]) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
