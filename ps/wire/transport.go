package wire

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// vectorWriter writes pieces of memory as one stream: all, or it returns an error.
type vectorWriter interface {
	writeVector(pieces [][]byte) (int64, error)
}

// plainWriter writes to any connection.
type plainWriter struct{ net.Conn }

func (w plainWriter) writeVector(pieces [][]byte) (int64, error) {
	buffers := net.Buffers(pieces)
	return buffers.WriteTo(w.Conn)
}

// corked is a connection below TLS, which writes record by record, 16 KiB each. While it is corked, several records are sent together:
// copying recently encrypted data costs less than the system calls that it saves. Reads are not combined: TLS requests about two records at
// a time.
type corked struct {
	net.Conn
	reader io.Reader
	writer vectorWriter
	// soon says that the data to read has begun to arrive. Used by the reader.
	soon bool

	mu     sync.Mutex
	held   []byte    // records that are still to be written
	sent   int       // how much of it the kernel has
	pieces [1][]byte // scratch
	corked bool
	// nonblockingWriter must not wait: what the kernel does not accept at once is held.
	eager bool
}

// corkBytes is how much is collected: about the size of a segment within this host. More would keep the other end from decrypting while
// this one encrypts.
const corkBytes = 64 << 10

func newCorked(conn net.Conn) *corked {
	return &corked{Conn: conn, reader: newReader(conn), writer: newWriter(conn)}
}

func (c *corked) Read(b []byte) (int, error) {
	if r, ok := c.reader.(restReader); ok && c.soon {
		return r.readRest([][]byte{b})
	}
	return c.reader.Read(b)
}

// moreWriter is a connection with hints: more follows at once, and everything has been written.
type moreWriter interface {
	nonblockingWriter
	writeMore(pieces [][]byte) (int64, error)
	writeMoreNow(pieces [][]byte) (int, error)
	push() error
}

// Write accepts a record.
func (c *corked) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.corked {
		_, err := c.writer.writeVector(append(c.pieces[:0], b))
		return len(b), err
	}
	c.held = append(c.held, b...)
	if c.left() < corkBytes {
		return len(b), nil
	}
	below, able := c.writer.(moreWriter)
	var err error
	switch {
	case able && c.eager:
		var n int
		n, err = below.writeMoreNow(append(c.pieces[:0], c.held[c.sent:]))
		if c.sent += n; c.left() == 0 {
			c.drop()
		}
	case able:
		_, err = below.writeMore(append(c.pieces[:0], c.held[c.sent:]))
		c.drop()
	case !c.eager:
		err = c.send()
	}
	return len(b), err
}

// left returns the number of bytes still to be written. mu must be held.
func (c *corked) left() int { return len(c.held) - c.sent }

func (c *corked) drop() { c.held, c.sent = c.held[:0], 0 }

// send writes the held bytes. mu must be held.
func (c *corked) send() error {
	_, err := c.writer.writeVector(append(c.pieces[:0], c.held[c.sent:]))
	c.drop()
	return err
}

func (c *corked) cork(eager bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked, c.eager = true, eager
}

// uncork sends the bytes held here or by the kernel.
func (c *corked) uncork() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked, c.eager = false, false
	if c.left() > 0 {
		return c.send()
	}
	if below, able := c.writer.(moreWriter); able {
		return below.push()
	}
	return nil
}

// tlsReader reads from TLS.
type tlsReader struct {
	tls   net.Conn
	below *corked
}

func (r *tlsReader) Read(b []byte) (int, error) { return r.tls.Read(b) }

// readRest reads a record at most.
func (r *tlsReader) readRest(pieces [][]byte) (int, error) {
	r.below.soon = true
	n, err := r.tls.Read(pieces[0])
	r.below.soon = false
	return n, err
}

// tlsWriter writes to TLS, combining short pieces.
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

// writeNow accepts all pieces: what the connection has no room for is kept, encrypted, until settle.
func (w *tlsWriter) writeNow(pieces [][]byte) (int, error) {
	w.below.cork(true)
	return w.encrypt(pieces)
}

// awaitRoom is not needed: writeNow takes everything.
func (w *tlsWriter) awaitRoom(time.Duration) bool { return true }

// settle writes the rest of what writeNow has accepted.
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
