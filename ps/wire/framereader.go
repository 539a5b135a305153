package wire

import (
	"errors"
	"fmt"
	"io"

	"github.com/tierml/tierml/ps"
)

const (
	// headBytes is how much is read at once between bodies: many small frames. A longer body is read to its destination, except for what
	// arrived with its header.
	headBytes = 16 << 10
	// firstRead is how much memory a frame's announcement alone can claim; the rest follows what has arrived, now or earlier on the
	// connection.
	firstRead = 1 << 20
)

// frameReader splits a connection's input into frames. A read that was interrupted by a deadline continues where it stopped.
type frameReader struct {
	from       io.Reader
	job        uint64
	most       int // the longest body that is accepted; 0 = MaxBody
	buffer     []byte
	start, end int // of what is in buffer

	// place returns the caller's memory for a body, if a caller waits with some. Nil, or if it returns nil: a buffer.
	place func(h header) *placement

	// memory returns the memory for a body that its caller will keep. Nil, or if it returns nil: there is none.
	memory func(h header) *Buffer

	// room must admit a body before its memory is allocated. Nil: there is always room.
	room func(h header) error

	header header
	began  bool       // header is that of the frame being read
	placed *placement // destination of its body; nil: body
	stamps []ps.Stamp // of the last body that went to a placement
	body   *Buffer    // as far as memory has been allocated
	at     int        // how much of it has arrived
	proven int        // the longest body so far
	piece  [1][]byte  // scratch
}

func newFrameReader(from io.Reader, job uint64) *frameReader {
	return &frameReader{from: from, job: job, buffer: make([]byte, headBytes), proven: firstRead}
}

// next reads a header and the following body, nil if it went to a placement. An *Error means that the frame must be refused, any other
// error that the connection broke or was interrupted. The header is as far as it is known.
func (f *frameReader) next() (header, *Buffer, error) {
	if !f.began {
		h, err := f.readHeader()
		if err != nil {
			return h, nil, err
		}
		f.header, f.began, f.at = h, true, 0
		if f.room != nil {
			if err := f.room(h); err != nil {
				return h, nil, err
			}
		}
		if f.place != nil {
			f.placed = f.place(h)
		}
	}
	err := f.readPlaced()
	if f.placed == nil && err == nil {
		if f.body == nil {
			f.body = f.newBuffer(min(f.header.length, f.proven))
		}
		err = f.readBody()
	}
	if err != nil {
		return f.header, nil, fmt.Errorf("read a frame's body of %d bytes: %w", f.header.length, err)
	}
	body := f.body
	f.began, f.placed, f.body = false, nil, nil
	f.proven = max(f.proven, f.header.length)
	return f.header, body, nil
}

func (f *frameReader) newBuffer(size int) *Buffer {
	if f.header.kind.kept() {
		if f.memory != nil {
			if b := f.memory(f.header); b.resize(f.header.length) {
				return b
			}
		}
		return newExactBuffer(size)
	}
	return NewBuffer(size)
}

// more reports whether the next frame has begun to arrive, so that next will not have to wait for its header.
func (f *frameReader) more() bool { return f.end-f.start >= headerSize }

// drop releases the memory of an incomplete frame.
func (f *frameReader) drop() {
	f.body.Release()
	f.body = nil
}

func (f *frameReader) readHeader() (header, error) {
	if err := f.fill(headerSize); err != nil {
		if errors.Is(err, io.EOF) && f.end > 0 {
			err = io.ErrUnexpectedEOF
		}
		return header{}, err
	}
	h, err := parseHeader(f.buffer[f.start:f.start+headerSize], f.job)
	if most := longest(f.most); err == nil && h.length > most {
		err = refused("a body of %d bytes is longer than %d", h.length, most)
	}
	if err == nil {
		f.start += headerSize
	}
	return h, err
}

// fill reads until n bytes are in the buffer, which has room for them.
func (f *frameReader) fill(n int) error {
	for f.end-f.start < n {
		if f.start > 0 {
			f.end = copy(f.buffer, f.buffer[f.start:f.end])
			f.start = 0
		}
		read, err := f.from.Read(f.buffer[f.end:])
		f.end += read
		if err != nil && f.end < n {
			return err
		}
	}
	return nil
}

func (f *frameReader) readBody() error {
	for f.at < f.header.length {
		if f.at == f.body.size {
			larger := f.newBuffer(min(f.header.length, 2*f.at))
			copy(larger.Bytes(), f.body.Bytes())
			f.body.Release()
			f.body = larger
		}
		into := f.body.Bytes()[f.at:]
		n, err := f.take(into)
		if n == 0 && err == nil {
			f.piece[0] = into
			n, err = f.readPieces(f.piece[:])
		}
		f.at += n
		if err != nil && f.at < f.header.length {
			return unexpected(err)
		}
	}
	return nil
}

// take returns what has already been read.
func (f *frameReader) take(into []byte) (int, error) {
	n := copy(into, f.buffer[f.start:f.end])
	f.start += n
	return n, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// restReader reads the rest of a partly received body into several pieces of memory at once.
type restReader interface {
	readRest(pieces [][]byte) (int, error)
}

// placement is memory for the values of Rows that were requested with Read.Into.
type placement struct {
	groups  []KeyGroup
	pieces  [][]byte // still missing
	values  int
	padding int        // bytes after the values
	checked bool       // what precedes the values has been checked
	stamps  []ps.Stamp // then: the stamps received
}

func newPlacement(m *Read) *placement {
	p := &placement{groups: m.Groups, pieces: make([][]byte, len(m.Into))}
	for i, piece := range m.Into {
		p.pieces[i] = raw(piece)
		p.values += len(piece)
	}
	p.padding = 4 * (p.values % 2)
	return p
}

// length returns the length of the body.
func (p *placement) length() int { return p.head() + 4*p.values + p.padding }

// head returns the number of bytes before the values if all groups are ok.
func (p *placement) head() int { return 16 + (8+stampBytes)*len(p.groups) }

// accepts reports whether a body begins like a Rows message with everything requested.
func (p *placement) accepts(head []byte) bool {
	d := decoder{rest: head}
	if d.u64() != uint64(len(p.groups)) {
		return false
	}
	for _, g := range p.groups {
		if partition, code := d.u32s(); partition != uint32(g.Partition) || Code(code) != OK {
			return false
		}
	}
	p.stamps = d.stamps(len(p.groups))
	return d.u64() == uint64(p.values) && !d.bad
}

// readPlaced reads a body to its placement. If it is not as expected, the body goes to a buffer.
func (f *frameReader) readPlaced() error {
	p := f.placed
	if p == nil {
		return nil
	}
	if !p.checked {
		if err := f.fill(p.head()); err != nil {
			return unexpected(err)
		}
		if !p.accepts(f.buffer[f.start : f.start+p.head()]) {
			f.placed = nil
			return nil
		}
		f.start += p.head()
		p.checked, f.stamps = true, p.stamps
	}
	for len(p.pieces) > 0 {
		n, err := f.take(p.pieces[0])
		if n == 0 {
			n, err = f.readPieces(p.pieces)
		}
		p.pieces = advance(p.pieces, n)
		if err != nil && len(p.pieces) > 0 {
			return unexpected(err)
		}
	}
	if err := f.fill(p.padding); err != nil {
		return unexpected(err)
	}
	for _, zero := range f.buffer[f.start : f.start+p.padding] {
		if zero != 0 {
			return refused("the padding of a message of type %d is not 0", f.header.kind)
		}
	}
	f.start += p.padding
	return nil
}

func (f *frameReader) readPieces(pieces [][]byte) (int, error) {
	if r, ok := f.from.(restReader); ok {
		return r.readRest(pieces)
	}
	return f.from.Read(pieces[0])
}

// advance drops the first n bytes, and empty pieces.
func advance(pieces [][]byte, n int) [][]byte {
	for len(pieces) > 0 && n >= len(pieces[0]) {
		n -= len(pieces[0])
		pieces = pieces[1:]
	}
	if n > 0 {
		pieces[0] = pieces[0][n:]
	}
	return pieces
}
