package wire

import (
	"bufio"
	"net"
	"sync"
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

// corked is a connection below TLS. TLS writes record by record, 16 KiB each; while it is corked, records are gathered
// into larger writes. Reads are gathered likewise.
type corked struct {
	net.Conn
	reader *bufio.Reader
	writer vectorWriter

	mu     sync.Mutex
	held   []byte
	corked bool
}

// corkBytes is how much is gathered: some records, few enough that the receiver decrypts the first ones while the sender
// encrypts the next.
const corkBytes = 128 << 10

func newCorked(conn net.Conn) *corked {
	return &corked{Conn: conn, reader: bufio.NewReaderSize(newReader(conn), corkBytes), writer: newWriter(conn)}
}

func (c *corked) Read(b []byte) (int, error) { return c.reader.Read(b) }

func (c *corked) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.corked {
		n, err := c.writer.writeVector([][]byte{b})
		return int(n), err
	}
	c.held = append(c.held, b...)
	if len(c.held) < corkBytes {
		return len(b), nil
	}
	return len(b), c.send()
}

// send writes what is held. The caller holds mu.
func (c *corked) send() error {
	_, err := c.writer.writeVector([][]byte{c.held})
	c.held = c.held[:0]
	return err
}

func (c *corked) cork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked = true
}

func (c *corked) uncork() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked = false
	if len(c.held) == 0 {
		return nil
	}
	return c.send()
}

// tlsWriter writes to TLS, short pieces together.
type tlsWriter struct {
	tls   net.Conn
	below *corked
	small []byte
}

func (w *tlsWriter) writeVector(pieces [][]byte) (n int64, err error) {
	w.below.cork()
	for _, piece := range pieces {
		n += int64(len(piece))
		if len(piece) < inlineBytes && len(w.small)+len(piece) <= 2*inlineBytes {
			w.small = append(w.small, piece...)
			continue
		}
		if err = w.flush(); err != nil {
			break
		}
		if len(piece) < inlineBytes {
			w.small = append(w.small, piece...)
		} else if _, err = w.tls.Write(piece); err != nil {
			break
		}
	}
	if err == nil {
		err = w.flush()
	}
	if sent := w.below.uncork(); err == nil {
		err = sent
	}
	return n, err
}

func (w *tlsWriter) flush() error {
	if len(w.small) == 0 {
		return nil
	}
	_, err := w.tls.Write(w.small)
	w.small = w.small[:0]
	return err
}
