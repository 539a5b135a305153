package wire

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/tierml/tierml/internal/loglimit"
	"github.com/tierml/tierml/ps"
)

// Handler answers requests, several at a time. Ctx ends with the connection. The answer is released once it is sent. A handler owns a
// request and releases it, after the last use.
type Handler interface {
	// HandleNow answers a request that need not wait for anything but memory, on the goroutine that reads the connection. Nil: it has done
	// nothing, and Handle must answer.
	HandleNow(generation ps.Generation, request Message) Message
	Handle(ctx context.Context, generation ps.Generation, request Message) Message
}

// Server is the answering end.
type Server struct {
	Job     uint64
	Handler Handler
	Log     *slog.Logger
	Traffic *Traffic
	TLS     *tls.Config // nil: none
	MaxBody int         // the longest body of a frame, in bytes; 0 = MaxBody
	// Panicked is called for panics in the server's goroutines, including the handler's.
	Panicked Panicked

	admission admission
	warnings  loglimit.Limit
}

const (
	// maxRequests bounds the concurrent requests of one connection: far more than an honest client has.
	maxRequests = 1024
	// answerTimeout bounds how long a client may take to read an answer.
	answerTimeout = 30 * time.Second
	// lingerTimeout and lingerBytes bound the reading after a refusal, so that the refusal arrives before
	// the connection breaks.
	lingerTimeout = time.Second
	lingerBytes   = 1 << 20
)

// Serve accepts connections until ctx is done, and returns when all have ended.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	var connections sync.WaitGroup
	defer connections.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	s.admission.init()
	pause := time.Millisecond
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept connections: %w", err)
		case err != nil: // such as too few file descriptors: other connections may end
			s.Log.Warn("cannot accept a connection", "error", err, "again_in", pause)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			pause = min(2*pause, time.Second)
			continue
		}
		pause = time.Millisecond
		conn = newSocket(conn)
		at, closed := s.admission.admit(conn)
		if closed != nil {
			_ = closed.Close()
			s.warnings.Warn(s.Log, "closed a connection: there are too many", "from", closed.RemoteAddr())
		}
		if at == nil {
			continue
		}
		connections.Go(func() {
			defer s.Panicked.Report()
			defer s.admission.leave(at)
			s.serve(ctx, conn, at)
		})
	}
}

// connection is one client.
type connection struct {
	*Server
	conn       net.Conn
	out        *outbox
	requests   sync.WaitGroup
	firstFrame func() // called with the first frame
}

func (s *Server) serve(ctx context.Context, conn net.Conn, at *list.Element) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if s.TLS != nil {
		over, err := secure(ctx, conn, tls.Server, s.TLS)
		if err != nil {
			s.warnings.Warn(s.Log, "refused a connection", "error", err)
			return
		}
		conn = over
	}
	c := &connection{Server: s, conn: conn, out: newOutbox(newWriter(conn), s.Traffic)}
	c.out.most = unsentBytes
	quiet := time.AfterFunc(silence, func() { _ = conn.Close() })
	defer quiet.Stop()
	c.firstFrame = sync.OnceFunc(func() { quiet.Stop(); s.admission.active(at) })
	c.out.before = func() error { return conn.SetWriteDeadline(time.Now().Add(answerTimeout)) }
	defer func() { c.out.close(net.ErrClosed) }()
	defer c.requests.Wait()
	defer func() { _ = conn.Close() }()
	defer cancel()
	err := c.read(ctx)
	var refusal *Error
	if errors.As(err, &refusal) {
		s.warnings.Warn(s.Log, "refused a connection", "from", conn.RemoteAddr(), "error", err)
		c.refuse(refusal)
	}
}

// read answers requests that need not wait itself, and starts a goroutine for each other one, until the connection breaks or a frame must
// be refused. Answers are sent together if several requests arrived together.
func (c *connection) read(ctx context.Context) error {
	frames := newFrameReader(newReader(c.conn), c.Job)
	frames.most = c.MaxBody
	defer frames.drop()
	room := bodyRoom{admission: &c.admission, conn: c.conn}
	defer func() { room.arrived()() }()
	frames.room = func(h header) error {
		c.firstFrame()
		if h.answer || h.request == 0 || !h.kind.isRequest() {
			return refused("a frame of type %d that is no request, or has no number", h.kind)
		}
		return room.claim(ctx, h.length)
	}
	slots := make(chan struct{}, maxRequests)
	for unsent := 0; ; {
		if unsent > 0 && (unsent >= batchFrames || c.out.size() > unsentBytes/2 || !frames.more()) {
			unsent = 0
			if err := c.out.flush(c.spawn); err != nil {
				return err
			}
		}
		h, body, err := frames.next()
		if err != nil {
			return err
		}
		c.Traffic.In.Add(int64(headerSize + h.length))
		release := room.arrived()
		request, err := decode(h.kind, body)
		if err != nil {
			release()
			return err
		}
		if answer := c.Handler.HandleNow(h.generation, request); answer != nil {
			release()
			if rows, ok := answer.(*Rows); ok && rows.lent.unlock != nil {
				if err := c.lend(h, rows); err != nil {
					return err
				}
				continue
			}
			if err := c.queue(h, answer); err != nil {
				return err
			}
			unsent++
			continue
		}
		if err := c.handle(ctx, slots, h, request, release); err != nil {
			return err
		}
	}
}

// handle answers a request on its own goroutine: it may have to wait. Release frees the room of its body.
func (c *connection) handle(ctx context.Context, slots chan struct{}, h header, request Message, release func()) error {
	cost := int64(2*h.length + waitingCost) // keys take twice as much as in transit
	if !c.admission.waiting.TryAcquire(cost) {
		release()
		Release(request)
		c.warnings.Warn(c.Log, "refused a request: too many wait", "from", c.conn.RemoteAddr())
		c.answer(h, &Error{Code: Retry, Text: "too many requests wait here"})
		return nil
	}
	release()
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		c.admission.waiting.Release(cost)
		return ctx.Err()
	}
	c.spawn(func() {
		defer func() { <-slots }()
		answer := c.Handler.Handle(ctx, h.generation, request)
		c.admission.waiting.Release(cost)
		c.answer(h, answer)
	})
	return nil
}

// spawn runs a goroutine that the connection waits for.
func (c *connection) spawn(f func()) {
	c.requests.Go(func() {
		defer c.Panicked.Report()
		f()
	})
}

// answer sends one answer.
func (c *connection) answer(h header, m Message) {
	err := c.queue(h, m)
	if err == nil {
		err = c.out.flush(nil)
	}
	if err != nil {
		_ = c.conn.Close() // ends the reader
	}
}

// queue queues an answer for the next flush. It takes ownership of the answer.
func (c *connection) queue(to header, m Message) error {
	h := c.answerTo(to)
	e, err := encode(h, m)
	if err != nil { // too long: answer with an error instead
		if e, err = encode(h, &Error{Code: Internal, Text: err.Error()}); err != nil {
			Release(m)
			return err
		}
	}
	return c.out.add(outgoingFrame{encoder: e, request: to.request, release: m})
}

func (c *connection) answerTo(h header) header {
	return header{answer: true, request: h.request, job: c.Job, generation: h.generation, most: c.MaxBody}
}

// lend sends values from where they are stored.
func (c *connection) lend(to header, m *Rows) error {
	e, err := encode(c.answerTo(to), m)
	if err != nil {
		Release(m)
		return err
	}
	return c.out.lend(outgoingFrame{encoder: e, request: to.request, release: m})
}

// refuse sends why the connection is closed.
func (c *connection) refuse(reason *Error) {
	err := c.queue(header{}, reason)
	if err == nil {
		err = c.out.flush(nil)
	}
	if err != nil {
		return
	}
	// Closing with unread data would reset the connection and could destroy the refusal in transit.
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(lingerTimeout))
	_, _ = io.CopyN(io.Discard, c.conn, lingerBytes)
}
