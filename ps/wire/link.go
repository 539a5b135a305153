package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/internal/sameuser"
	"github.com/tierml/tierml/ps"
)

// Caller calls a server. *Link does it over a connection; a server in the same process can be one itself. An answer that refuses the
// request is returned as an error, an *Error. The caller may change the request's arrays once Call has returned, and releases the answer.
type Caller interface {
	Call(ctx context.Context, generation ps.Generation, request Message) (Message, error)
}

// Ask makes a call and expects an answer of one type.
func Ask[T Message](ctx context.Context, c Caller, generation ps.Generation, request Message) (T, error) {
	var none T
	m, err := c.Call(ctx, generation, request)
	if err != nil {
		return none, err
	}
	answer, ok := m.(T)
	if !ok {
		Release(m)
		return none, fmt.Errorf("a request of type %d was answered by type %d", request.Type(), m.Type())
	}
	return answer, nil
}

// Traffic counts bytes, and the requests that a process has sent.
type Traffic struct{ In, Out, Requests atomic.Int64 }

// ErrClosed is the error of calls on a closed link.
var ErrClosed = errors.New("connection closed")

// Link is the asking end of a connection. Any number of requests may be in progress at once.
//
// It has no goroutine of its own. One of the callers that wait for answers reads the connection and delivers the others' answers; one of
// those that send writes the others' frames as well. So a lone caller reads its answer directly from the kernel, and many share system
// calls. Invariant: while an answer is outstanding, a goroutine waits to read it. If the caller has gone away that is a goroutine that ends
// with the last such answer.
type Link struct {
	conn    net.Conn
	job     uint64
	most    int // the longest body that is sent; 0 = MaxBody
	traffic *Traffic
	out     *outbox
	done    chan struct{}  // closed when the link is broken, after err is set
	helpers sync.WaitGroup // goroutines that finish reads or writes for callers
	// panicked is called for panics in them.
	panicked Panicked

	reading chan struct{} // holds one token while a goroutine reads; guards frames
	frames  *frameReader

	mu          sync.Mutex
	next        uint64
	calls       map[uint64]*call
	abandoned   int // calls whose caller has gone
	draining    bool
	reader      *call // the call that reads; nil: none, or the goroutine that drains
	interrupted bool  // the read deadline was set to stop the reader
	err         error
}

// call is a request in progress. Guarded by Link.mu except answered.
type call struct {
	id       uint64
	answered chan answer
	left     bool    // the caller has gone
	read     *Read   // with memory for the answer's values; nil: without
	placing  bool    // they are being read to that memory
	memory   *Buffer // of the caller, for an answer that it keeps
}

type answer struct {
	message Message
	err     error
}

var calls = sync.Pool{New: func() any { return &call{answered: make(chan answer, 1)} }}

// NewLink takes ownership of a connection. Traffic may be nil.
func NewLink(conn net.Conn, job uint64, traffic *Traffic) *Link {
	if traffic == nil {
		traffic = new(Traffic)
	}
	conn = newSocket(conn)
	l := &Link{
		conn:    conn,
		job:     job,
		traffic: traffic,
		out:     newOutbox(newWriter(conn), traffic),
		done:    make(chan struct{}),
		reading: make(chan struct{}, 1),
		frames:  newFrameReader(newReader(conn), job),
		calls:   map[uint64]*call{},
	}
	l.frames.place, l.frames.memory = l.place, l.memory
	return l
}

// Close ends all calls and waits for the link's goroutines.
func (l *Link) Close() {
	l.fail(ErrClosed)
	l.out.close(ErrClosed)
	l.helpers.Wait()
}

// Broken reports whether the link is known to be unusable.
func (l *Link) Broken() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// fail breaks the link; the first reason counts.
func (l *Link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = err
	close(l.done)
	_ = l.conn.Close()
}

// Call sends a request and waits for its answer.
func (l *Link) Call(ctx context.Context, generation ps.Generation, request Message) (Message, error) {
	c, err := l.begin(request)
	if err != nil {
		return nil, err
	}
	e, err := encode(header{request: c.id, job: l.job, generation: generation, most: l.most}, request)
	if err != nil {
		l.end(c)
		return nil, err
	}
	if err := l.out.add(outgoingFrame{encoder: e, request: c.id}); err != nil {
		l.end(c)
		return nil, l.broken(err)
	}
	l.traffic.Requests.Add(1)
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { l.interrupt(c) })
	}
	if err := l.out.flush(l.help); err != nil {
		l.fail(fmt.Errorf("write a request: %w", err))
	}
	a, answered := l.await(ctx, c)
	stop()
	if !answered {
		l.leave(c)
		return nil, a.err
	}
	l.end(c)
	return a.message, a.err
}

// broken returns the reason why the link is broken; err if that is not known yet.
func (l *Link) broken(err error) error {
	l.fail(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// help runs a goroutine that Close waits for.
func (l *Link) help(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.helpers.Go(l.reportingPanics(f)) // Close marks the link broken first; f ends at once then
}

// reportingPanics returns f with its panic reported.
func (l *Link) reportingPanics(f func()) func() {
	return func() {
		defer l.panicked.Report()
		f()
	}
}

func (l *Link) begin(request Message) (*call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	l.next++
	c := calls.Get().(*call)
	c.id, c.left, c.placing, c.read, c.memory = l.next, false, false, nil, nil
	if read, ok := request.(*Read); ok && len(read.Into) > 0 {
		c.read = read
	}
	if pull, ok := request.(*PullCut); ok {
		c.memory, pull.memory = pull.memory, nil
	}
	l.calls[c.id] = c
	return c, nil
}

// end forgets a call that has its answer, or cannot get one.
func (l *Link) end(c *call) {
	l.mu.Lock()
	_, unanswered := l.calls[c.id]
	delete(l.calls, c.id)
	l.mu.Unlock()
	if !unanswered && len(c.answered) == 0 { // no other goroutine knows it
		calls.Put(c)
	}
}

// await waits for the answer, and reads the connection unless another call does. Without an answer it returns the reason.
func (l *Link) await(ctx context.Context, c *call) (a answer, answered bool) {
	for {
		select { // an answer that has already arrived comes first
		case a := <-c.answered:
			return a, true
		default:
		}
		select {
		case a := <-c.answered:
			return a, true
		case <-ctx.Done():
			return answer{err: ctx.Err()}, false
		case <-l.done:
			return answer{err: l.err}, false
		case l.reading <- struct{}{}:
			l.read(ctx, c)
			<-l.reading
		}
	}
}

// read delivers answers to the waiting calls until c has its own, ctx is done or the link breaks. The caller holds
// the reading token.
func (l *Link) read(ctx context.Context, c *call) {
	if !l.beginReading(ctx, c) {
		return
	}
	defer l.endReading()
	for len(c.answered) == 0 {
		if err := l.readOne(); err != nil {
			if !l.wasInterrupted() || !errors.Is(err, os.ErrDeadlineExceeded) {
				l.fail(fmt.Errorf("read an answer: %w", err))
			}
			return
		}
	}
}

func (l *Link) beginReading(ctx context.Context, c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil || l.err != nil {
		return false
	}
	l.reader = c
	return true
}

func (l *Link) wasInterrupted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.interrupted
}

func (l *Link) endReading() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reader = nil
	if l.interrupted {
		l.interrupted = false
		_ = l.conn.SetReadDeadline(time.Time{})
	}
}

// interrupt stops a caller's read because its context is done. The connection stays usable: the received part of a frame is kept for the
// next reader.
func (l *Link) interrupt(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reader == c {
		l.interrupted = true
		_ = l.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// leave gives up a call. Its frame may still be queued or partly sent, or the answer partly in the caller's memory: cutting that short
// would break the link, so the link is broken then. The request's arrays are not read afterwards.
func (l *Link) leave(c *call) {
	if l.out.withdraw(c.id) {
		l.end(c)
		return
	}
	if l.out.beingWritten(c.id) || l.beingPlaced(c) {
		l.fail(context.Canceled)
		l.reading <- struct{}{} // the caller's memory is not used after that
		<-l.reading
	}
	if l.Broken() {
		l.out.close(l.err)
		l.end(c)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, unanswered := l.calls[c.id]; !unanswered { // the answer came too late
		Release((<-c.answered).message)
		return
	}
	c.left = true
	l.abandoned++
	if !l.draining && l.err == nil {
		l.draining = true
		l.helpers.Go(l.reportingPanics(l.drain))
	}
}

// drain reads for callers that have gone: otherwise a server could wait forever to send an answer.
func (l *Link) drain() {
	for {
		l.mu.Lock()
		if l.abandoned == 0 || l.err != nil {
			l.draining = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		select {
		case <-l.done:
		case l.reading <- struct{}{}:
			l.readAbandoned()
			<-l.reading
		}
	}
}

// readAbandoned reads one answer, if one is still expected by a caller that has gone.
func (l *Link) readAbandoned() {
	l.mu.Lock()
	needed := l.abandoned > 0
	l.mu.Unlock()
	if !needed {
		return
	}
	if err := l.readOne(); err != nil {
		l.fail(fmt.Errorf("read an answer: %w", err))
	}
}

// beingPlaced reports whether a call's answer has begun to arrive in the caller's memory. Otherwise it detaches that memory from the call.
func (l *Link) beingPlaced(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.read = nil
	return c.placing
}

// place finds memory for the body of an answer.
func (l *Link) place(h header) *placement {
	if h.kind != typeRows || !h.answer || !littleEndian {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[h.request]
	if c == nil || c.read == nil {
		return nil
	}
	p := newPlacement(c.read)
	if h.length != p.length() || p.head() > headBytes {
		return nil
	}
	c.placing = true
	return p
}

// memory finds memory for an answer that its caller keeps. It then no longer belongs to the caller.
func (l *Link) memory(h header) *Buffer {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[h.request]
	if c == nil || !h.answer {
		return nil
	}
	b := c.memory
	c.memory = nil
	return b
}

// readOne reads an answer and delivers it. The caller holds the reading token.
func (l *Link) readOne() error {
	h, body, err := l.frames.next()
	if err != nil {
		return err
	}
	l.traffic.In.Add(int64(headerSize + h.length))
	if body == nil {
		l.deliver(h.request, &Rows{Placed: true, Stamps: l.frames.stamps})
		return nil
	}
	m, err := decode(h.kind, body)
	if err != nil {
		return err
	}
	if refusal, isError := m.(*Error); isError && h.request == 0 {
		return refusal
	}
	l.deliver(h.request, m)
	return nil
}

// deliver passes an answer to its caller, which may no longer be waiting.
func (l *Link) deliver(id uint64, m Message) {
	a := answer{message: m}
	if refusal, isError := m.(*Error); isError {
		a = answer{err: refusal}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.calls[id]
	delete(l.calls, id)
	switch {
	case !ok:
		Release(m)
	case c.left:
		l.abandoned--
		Release(m)
	default:
		c.placing = false
		c.answered <- a // has room
	}
}

// Dialer opens connections.
type Dialer func(ctx context.Context, address string) (net.Conn, error)

// dialTimeout bounds one attempt: a machine that disappeared must not hold its caller up.
const dialTimeout = 3 * time.Second

// DialTCP is the usual Dialer. On this host it only reaches processes of the same user.
func DialTCP(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return sameuser.Dial(ctx, "tcp", address)
}

// dialAnyUser is for TLS, whose certificates identify the other end: slots of a shared host are separate users.
func dialAnyUser(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	return d.DialContext(ctx, "tcp", address)
}
