package wire

import (
	"errors"
	"sync"
	"time"
)

// outbox sends frames in order. A sender that finds no writer becomes the writer, also of frames that others add meanwhile, in as few
// system calls as possible.
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
	vector  [][]byte        // scratch memory of the writer
	writing bool
	err     error
}

// outgoingFrame is a frame, and a message that is released once it is written; nil: none.
type outgoingFrame struct {
	*encoder
	request uint64
	release Message
}

// size returns its number of bytes.
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
	// batchFrames bounds the frames per system call, so that vectors stay below the kernel's limit.
	batchFrames = 64
	// maxBatches bounds the batches that a caller writes for others before a goroutine takes over.
	maxBatches = 16
)

func newOutbox(to vectorWriter, traffic *Traffic) *outbox {
	o := &outbox{to: to, traffic: traffic}
	o.idle.L = &o.mu
	return o
}

// add queues a frame without writing it. The outbox releases it, immediately if it is broken.
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

// size returns the number of bytes still to be written.
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

// writeBatch writes some frames. mu must be held, and is released meanwhile.
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

// nonblockingWriter is a vectorWriter that can write as much as is possible without waiting, and return how much that was. AwaitRoom waits
// until there is room for more, and reports whether there is. Settle waits until the accepted bytes are written; nothing else is written
// before.
type nonblockingWriter interface {
	writeNow(pieces [][]byte) (int, error)
	awaitRoom(timeout time.Duration) bool
	settle() error
}

// lend writes a frame whose values are lent, without keeping them while it waits: what the connection does not accept at once is copied.
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
	return o.flush(nil) // frames that others have added meanwhile
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
	// lendRate is the rate in bytes per second that the other end must sustain: at most half the speed of an uncached copy.
	lendRate = 2 << 30
	// lendGrace is additional time for it.
	lendGrace = 200 * time.Microsecond
)

// writeWhileFast writes as long as the other end receives about as fast as copying would be, and returns the rest: others need the lent
// memory.
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

// fail ends it: nothing is written any more. mu must be held.
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

// close ends it from outside, and waits for the current write: break the connection first.
func (o *outbox) close(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail(err)
	for o.writing {
		o.idle.Wait()
	}
}

// withdraw removes a frame that has not been written, and reports whether it did. It returns false for a frame that has been written or is
// being written.
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
