package wire

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// vectorWriter writes pieces of memory as one stream: all of them, or it gives an error.
type vectorWriter interface {
	writeVector(pieces [][]byte) (int64, error)
}

// plainWriter writes to any connection.
type plainWriter struct{ net.Conn }

func (w plainWriter) writeVector(pieces [][]byte) (int64, error) {
	buffers := net.Buffers(pieces)
	return buffers.WriteTo(w.Conn)
}

// corked is a connection below TLS, which writes record by record, 16 KiB each. While it is corked, the kernel is told that
// more follows: records go off in larger segments, but are not gathered here first, which would be one copy more. Nor are
// reads: TLS asks for about as much as a record has.
type corked struct {
	net.Conn
	reader io.Reader
	writer vectorWriter

	mu     sync.Mutex
	held   []byte // records that are still to be written
	pieces [2][]byte
	corked bool
	// eager says that nothing is to be waited for: what the kernel does not take at once is held.
	eager bool
}

// corkBytes is how much is gathered where the kernel cannot be told that more follows.
const corkBytes = 128 << 10

func newCorked(conn net.Conn) *corked {
	return &corked{Conn: conn, reader: newReader(conn), writer: newWriter(conn)}
}

func (c *corked) Read(b []byte) (int, error) { return c.reader.Read(b) }

// moreWriter is a connection that can be told that more follows at once, and when it is all there.
type moreWriter interface {
	eager
	writeMore(pieces [][]byte) (int64, error)
	push() error
}

// Write takes a record.
func (c *corked) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	below, able := c.writer.(moreWriter)
	large := able && len(b) >= inlineBytes
	var err error
	switch {
	case !c.corked:
		_, err = c.writer.writeVector(append(c.pieces[:0], b))
	case large && !c.eager:
		_, err = below.writeMore(append(c.pieces[:0], c.held, b))
		c.held = c.held[:0]
	case large && len(c.held) == 0:
		var n int
		n, err = below.writeNow(append(c.pieces[:0], b))
		c.held = append(c.held, b[n:]...)
	default:
		c.held = append(c.held, b...)
		if len(c.held) >= corkBytes && !c.eager {
			err = c.send()
		}
	}
	return len(b), err
}

// send writes what is held. The caller holds mu.
func (c *corked) send() error {
	_, err := c.writer.writeVector(append(c.pieces[:0], c.held))
	c.held = c.held[:0]
	return err
}

func (c *corked) cork(eager bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked, c.eager = true, eager
}

// uncork sends what is held, here or by the kernel.
func (c *corked) uncork() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked, c.eager = false, false
	if len(c.held) > 0 {
		return c.send()
	}
	if below, able := c.writer.(moreWriter); able {
		return below.push()
	}
	return nil
}

// tlsWriter writes to TLS, short pieces together.
type tlsWriter struct {
	tls   net.Conn
	below *corked
	small []byte
}

func (w *tlsWriter) writeVector(pieces [][]byte) (int64, error) {
	w.below.cork(false)
	n, err := w.encrypt(pieces)
	return int64(n), errors.Join(err, w.below.uncork())
}

// writeNow takes all of the pieces: what the connection has no room for is kept, encrypted, until settle.
func (w *tlsWriter) writeNow(pieces [][]byte) (int, error) {
	w.below.cork(true)
	return w.encrypt(pieces)
}

// awaitRoom is not needed: writeNow takes everything.
func (w *tlsWriter) awaitRoom(time.Duration) bool { return true }

// settle writes the rest of what writeNow has taken.
func (w *tlsWriter) settle() error { return w.below.uncork() }

func (w *tlsWriter) encrypt(pieces [][]byte) (n int, err error) {
	for _, piece := range pieces {
		n += len(piece)
		if len(piece) < inlineBytes && len(w.small)+len(piece) <= 2*inlineBytes {
			w.small = append(w.small, piece...)
			continue
		}
		if err := w.flush(); err != nil {
			return n, err
		}
		if len(piece) < inlineBytes {
			w.small = append(w.small, piece...)
		} else if _, err := w.tls.Write(piece); err != nil {
			return n, err
		}
	}
	return n, w.flush()
}

func (w *tlsWriter) flush() error {
	if len(w.small) == 0 {
		return nil
	}
	_, err := w.tls.Write(w.small)
	w.small = w.small[:0]
	return err
}
