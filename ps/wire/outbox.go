package wire

import (
	"errors"
	"sync"
	"time"
)

// outbox sends frames in order. A sender that finds no writer becomes the writer, also of what others add meanwhile, in as
// few system calls as possible.
type outbox struct {
	to      vectorWriter
	traffic *Traffic
	before  func() error // called before each write; nil: nothing

	mu      sync.Mutex
	idle    sync.Cond // there is no writer, or less is queued
	queue   []outgoingFrame
	queued  int             // bytes in queue and batch
	most    int             // above it add waits for the writer; 0: it never does
	batch   []outgoingFrame // being written
	vector  [][]byte        // scratch of the writer
	writing bool
	err     error
}

// outgoingFrame is a frame, and a message that is released once it is written; nil: none.
type outgoingFrame struct {
	*encoder
	request uint64
	release Message
}

// size returns how many bytes it has.
func (f outgoingFrame) size() int { return len(f.small) + f.placed }

func (f outgoingFrame) done() {
	f.encoder.release()
	if f.release != nil {
		Release(f.release)
	}
}

// copied copies lent memory into its own.
func (f *outgoingFrame) copied() {
	own := NewBuffer(f.placed)
	at := 0
	for i, s := range f.large {
		n := copy(own.Bytes()[at:], s.bytes)
		f.large[i].bytes = own.Bytes()[at : at+n : at+n]
		at += n
	}
	Release(f.release)
	f.release = &Rows{buffer: own}
}

const (
	// batchFrames bounds how many frames one system call sends, so that vectors stay short of the kernel's limit.
	batchFrames = 64
	// maxBatches is how long a caller writes for others before a goroutine does.
	maxBatches = 16
)

func newOutbox(to vectorWriter, traffic *Traffic) *outbox {
	o := &outbox{to: to, traffic: traffic}
	o.idle.L = &o.mu
	return o
}

// add puts a frame into the queue without writing it. The outbox releases it, now if it is broken.
func (o *outbox) add(f outgoingFrame) error {
	o.mu.Lock()
	for o.most > 0 && o.queued > o.most && o.writing && o.err == nil {
		o.idle.Wait()
	}
	err := o.err
	if err == nil {
		o.queue = append(o.queue, f)
		o.queued += f.size()
	}
	o.mu.Unlock()
	if err != nil {
		f.done()
	}
	return err
}

// size returns how many bytes are still to be written.
func (o *outbox) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queued
}

// flush writes the queue, or leaves it to the present writer. After maxBatches it passes the rest to handOver; nil: it
// writes everything itself.
func (o *outbox) flush(handOver func(rest func())) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing {
		return o.err
	}
	o.writing = true
	for n := 0; o.err == nil && len(o.queue) > 0; n++ {
		if n == maxBatches && handOver != nil {
			handOver(func() {
				o.mu.Lock()
				o.writing = false
				o.mu.Unlock()
				_ = o.flush(nil)
			})
			return nil
		}
		o.writeBatch()
	}
	o.writing = false
	o.idle.Broadcast()
	return o.err
}

// writeBatch writes some frames. The caller holds mu, which is free meanwhile.
func (o *outbox) writeBatch() {
	n := min(len(o.queue), batchFrames)
	o.batch = append(o.batch[:0], o.queue[:n]...)
	rest := copy(o.queue, o.queue[n:])
	clear(o.queue[rest:])
	o.queue = o.queue[:rest]
	o.mu.Unlock()

	err := o.writeFrames()
	written := 0
	for _, f := range o.batch {
		written += f.size()
		f.done()
	}

	o.mu.Lock()
	o.queued -= written
	o.idle.Broadcast() // for those that wait for the writer to stop
	clear(o.batch)
	o.batch = o.batch[:0]
	if err != nil {
		o.fail(err)
	}
}

func (o *outbox) writeFrames() error {
	if o.before != nil {
		if err := o.before(); err != nil {
			return err
		}
	}
	vector := o.vector[:0]
	for _, f := range o.batch {
		vector = f.appendTo(vector)
	}
	n, err := o.to.writeVector(vector)
	clear(vector)
	o.vector = vector[:0]
	o.traffic.Out.Add(n)
	return err
}

// nonblockingWriter is a vectorWriter that can take as much as is possible without waiting, and say how much that was. AwaitRoom waits
// until there is room for more, and reports whether there is. Settle waits until what was taken is written; nothing else is
// written before.
type nonblockingWriter interface {
	writeNow(pieces [][]byte) (int, error)
	awaitRoom(timeout time.Duration) bool
	settle() error
}

// lend writes a frame whose values are lent, without keeping them while it waits: what the connection does not take at
// once is copied.
func (o *outbox) lend(f outgoingFrame) error {
	o.mu.Lock()
	to, able := o.to.(nonblockingWriter)
	if !able || o.writing || len(o.queue) > 0 || o.err != nil {
		o.mu.Unlock()
		f.copied()
		if err := o.add(f); err != nil {
			return err
		}
		return o.flush(nil)
	}
	o.writing = true
	o.mu.Unlock()

	err := o.writeLent(to, f)

	o.mu.Lock()
	o.writing = false
	if err != nil {
		o.fail(err)
	}
	o.idle.Broadcast()
	o.mu.Unlock()
	return o.flush(nil) // what others have added meanwhile
}

// writeLent is lend for the writer.
func (o *outbox) writeLent(to nonblockingWriter, f outgoingFrame) error {
	o.vector = f.appendTo(o.vector[:0])
	rest, err := o.writeWhileFast(to, o.vector)
	if err != nil || len(rest) == 0 {
		clear(o.vector)
		f.done()
		if err == nil && o.before != nil {
			err = o.before()
		}
		return errors.Join(err, to.settle())
	}
	size := 0
	for _, piece := range rest {
		size += len(piece)
	}
	buffer := NewBuffer(size)
	defer buffer.Release()
	at := 0
	for _, piece := range rest {
		at += copy(buffer.Bytes()[at:], piece)
	}
	clear(o.vector)
	f.done()
	if o.before != nil {
		if err := o.before(); err != nil {
			return err
		}
	}
	written, err := o.to.writeVector([][]byte{buffer.Bytes()})
	o.traffic.Out.Add(written)
	return err
}

const (
	// lendRate is how many bytes a second the other end must take: half of what a copy makes that fits no cache, or less.
	lendRate = 2 << 30
	// lendGrace is how much longer it may be lent than that.
	lendGrace = 200 * time.Microsecond
)

// writeWhileFast writes for as long as the other end takes the bytes about as fast as they could be copied, and returns what is
// left: what is lent is needed by others.
func (o *outbox) writeWhileFast(to nonblockingWriter, pieces [][]byte) (rest [][]byte, err error) {
	began, written := time.Now(), 0
	for rest = pieces; ; {
		n, err := to.writeNow(rest)
		o.traffic.Out.Add(int64(n))
		written += n
		rest = advance(rest, n)
		left := time.Duration(written)*time.Second/lendRate + lendGrace - time.Since(began)
		if err != nil || len(rest) == 0 || left <= 0 || !to.awaitRoom(left) {
			return rest, err
		}
	}
}

// fail ends it: nothing is written any more. The caller holds mu.
func (o *outbox) fail(err error) {
	if o.err == nil {
		o.err = err
	}
	for _, f := range o.queue {
		o.queued -= f.size()
		f.done()
	}
	clear(o.queue)
	o.queue = o.queue[:0]
}

// close ends it from outside, and waits until what is being written is: break the connection first.
func (o *outbox) close(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail(err)
	for o.writing {
		o.idle.Wait()
	}
}

// withdraw takes a frame back that has not been written, and reports whether it did. It is false as well for a frame that
// has been written or is being written.
func (o *outbox) withdraw(request uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, f := range o.queue {
		if f.request == request {
			o.queue = append(o.queue[:i], o.queue[i+1:]...)
			o.queued -= f.size()
			f.done()
			return true
		}
	}
	return false
}

// beingWritten reports whether a frame is on its way now.
func (o *outbox) beingWritten(request uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.batch {
		if f.request == request {
			return true
		}
	}
	return false
}
