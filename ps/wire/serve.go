package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/tierml/tierml/ps"
)

// Handler answers requests, several at a time. Ctx ends with the connection. The answer is released once it is
// sent. Handle owns the request and releases it, but must not before it is done with it.
type Handler interface {
	Handle(ctx context.Context, generation ps.Generation, request Message) Message
}

// Server is the answering end.
type Server struct {
	Job     uint64
	Handler Handler
	Log     *slog.Logger
	Traffic *Traffic
}

const (
	// maxRequests is how many requests of one connection may be under way: far more than an honest asker has.
	maxRequests = 1024
	// answerTimeout is how long an asker may take to read an answer.
	answerTimeout = 30 * time.Second
	// lingerTimeout and lingerBytes bound what is still read after a refusal, so that the refusal arrives before
	// the connection breaks.
	lingerTimeout = time.Second
	lingerBytes   = 1 << 20
)

// Serve accepts connections until ctx is done, and returns when all of them have ended.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	var connections sync.WaitGroup
	defer connections.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
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
		case err != nil: // out of file descriptors, say: others may end
			s.Log.Warn("cannot accept a connection", "error", err, "again_in", pause)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			pause = min(2*pause, time.Second)
			continue
		}
		pause = time.Millisecond
		connections.Go(func() { s.serve(ctx, conn) })
	}
}

// connection is one asker.
type connection struct {
	*Server
	conn     net.Conn
	writing  sync.Mutex
	requests sync.WaitGroup
}

func (s *Server) serve(ctx context.Context, conn net.Conn) {
	c := &connection{Server: s, conn: conn}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer c.requests.Wait()
	defer func() { _ = conn.Close() }()
	defer cancel()
	err := c.read(ctx)
	var refusal *Error
	if errors.As(err, &refusal) {
		s.Log.Warn("refused a connection", "from", conn.RemoteAddr(), "error", err)
		c.refuse(refusal)
	}
}

// read starts a goroutine for each request until the connection breaks or a frame must be refused.
func (c *connection) read(ctx context.Context) error {
	r := bufio.NewReaderSize(c.conn, 64<<10)
	slots := make(chan struct{}, maxRequests)
	for {
		h, body, err := readFrame(r, c.Job)
		if err != nil {
			return err
		}
		c.Traffic.In.Add(int64(headerSize + h.length))
		if h.answer || h.request == 0 {
			body.Release()
			return refused("an answer, or a request without a number")
		}
		request, err := decode(h.kind, body)
		if err != nil {
			return err
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		c.requests.Go(func() {
			defer func() { <-slots }()
			answer := c.Handler.Handle(ctx, h.generation, request)
			defer Release(answer)
			h := header{answer: true, request: h.request, job: c.Job, generation: h.generation}
			if err := c.write(h, answer); err != nil {
				_ = c.conn.Close() // ends the reader
			}
		})
	}
}

func (c *connection) write(h header, m Message) error {
	e, err := encode(h, m)
	if err != nil { // too long: say so instead
		if e, err = encode(h, &Error{Code: Internal, Text: err.Error()}); err != nil {
			return err
		}
	}
	defer e.release()
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	n, err := e.writeTo(c.conn)
	c.Traffic.Out.Add(n)
	return err
}

// refuse says why the connection is closed.
func (c *connection) refuse(reason *Error) {
	if err := c.write(header{answer: true, job: c.Job}, reason); err != nil {
		return
	}
	// Closing with unread data would reset the connection and could destroy the refusal on its way.
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(lingerTimeout))
	_, _ = io.CopyN(io.Discard, c.conn, lingerBytes)
}
