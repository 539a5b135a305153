package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/ps"
)

// Caller asks a server. *Link does it over a connection; a server in the same process can be one itself. An
// answer that refuses the request is returned as an error, an *Error. The caller may change the request's
// arrays once Call has returned, and releases the answer.
type Caller interface {
	Call(ctx context.Context, generation ps.Generation, request Message) (Message, error)
}

// Ask calls and expects an answer of one type.
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

// Traffic counts bytes.
type Traffic struct{ In, Out atomic.Int64 }

// ErrClosed is what calls on a closed link end with.
var ErrClosed = errors.New("connection closed")

// Link is the asking end of a connection. Any number of requests may be under way at once.
type Link struct {
	conn    net.Conn
	job     uint64
	traffic *Traffic
	writing chan struct{} // holds one token while somebody writes
	done    chan struct{} // closed when the link is broken, after err is set
	ended   chan struct{} // closed when the reader has returned

	mu    sync.Mutex
	next  uint64
	calls map[uint64]chan answer
	err   error
}

type answer struct {
	message Message
	err     error
}

// NewLink takes a connection over. Traffic may be nil.
func NewLink(conn net.Conn, job uint64, traffic *Traffic) *Link {
	if traffic == nil {
		traffic = new(Traffic)
	}
	l := &Link{
		conn:    conn,
		job:     job,
		traffic: traffic,
		writing: make(chan struct{}, 1),
		done:    make(chan struct{}),
		ended:   make(chan struct{}),
		calls:   map[uint64]chan answer{},
	}
	go l.read()
	return l
}

// Close ends all calls and waits for the reader.
func (l *Link) Close() {
	l.fail(ErrClosed)
	<-l.ended
}

// Broken says whether the link is of no more use.
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
	id, answered, err := l.begin()
	if err != nil {
		return nil, err
	}
	defer l.end(id)
	if err := l.write(ctx, header{request: id, job: l.job, generation: generation}, request); err != nil {
		return nil, err
	}
	select {
	case a := <-answered:
		return a.message, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.done:
		return nil, l.err
	}
}

func (l *Link) begin() (id uint64, answered chan answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, nil, l.err
	}
	l.next++
	answered = make(chan answer, 1)
	l.calls[l.next] = answered
	return l.next, answered, nil
}

func (l *Link) end(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, id)
}

// write sends a frame. A frame that is cut short breaks the link, so a cancelled context breaks it only while
// the bytes are on their way.
func (l *Link) write(ctx context.Context, h header, m Message) error {
	e, err := encode(h, m)
	if err != nil {
		return err
	}
	defer e.release()
	select {
	case l.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
		return l.err
	}
	stop := context.AfterFunc(ctx, func() { l.fail(context.Cause(ctx)) })
	n, err := e.writeTo(l.conn)
	stop()
	<-l.writing
	l.traffic.Out.Add(n)
	if err != nil {
		l.fail(fmt.Errorf("write a request: %w", err))
		return l.err
	}
	return nil
}

// read gives answers to those who wait for them until the link breaks.
func (l *Link) read() {
	defer close(l.ended)
	r := bufio.NewReaderSize(l.conn, 64<<10)
	for {
		h, body, err := readFrame(r, l.job)
		if err != nil {
			l.fail(fmt.Errorf("read an answer: %w", err))
			return
		}
		l.traffic.In.Add(int64(headerSize + h.length))
		m, err := decode(h.kind, body)
		if err != nil {
			l.fail(err)
			return
		}
		refusal, isError := m.(*Error)
		if h.request == 0 && isError {
			l.fail(refusal)
			return
		}
		l.deliver(h.request, m)
	}
}

// deliver hands an answer over. Nobody may be waiting for it any more.
func (l *Link) deliver(id uint64, m Message) {
	l.mu.Lock()
	answered, ok := l.calls[id]
	delete(l.calls, id)
	l.mu.Unlock()
	switch refusal, isError := m.(*Error); {
	case !ok:
		Release(m)
	case isError:
		answered <- answer{err: refusal}
	default:
		answered <- answer{message: m}
	}
}

// Dialer opens connections.
type Dialer func(ctx context.Context, address string) (net.Conn, error)

// dialTimeout bounds one attempt: a machine that is gone without a word must not hold its caller up.
const dialTimeout = 3 * time.Second

// DialTCP is the usual Dialer.
func DialTCP(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	return d.DialContext(ctx, "tcp", address)
}
