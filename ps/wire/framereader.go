package wire

import (
	"fmt"
	"io"
)

const (
	// headBytes is how much is read at once between bodies: many small frames. A body that is longer is read to where it
	// is used, but for what has come with its header.
	headBytes = 16 << 10
	// firstRead is how much memory a frame's announcement alone can claim; the rest follows what arrives, or what the
	// connection has brought before.
	firstRead = 1 << 20
)

// frameReader takes a connection's frames apart. A read that was interrupted by a deadline goes on where it was.
type frameReader struct {
	from       io.Reader
	job        uint64
	buffer     []byte
	start, end int // of what is in buffer

	expect func(n int) // tells from how much of a body surely comes

	header header
	body   *Buffer // of the frame that is being read, as far as memory has been claimed; nil between frames
	at     int     // how much of it is there
	proven int     // the longest body so far
}

func newFrameReader(from io.Reader, job uint64) *frameReader {
	f := &frameReader{from: from, job: job, buffer: make([]byte, headBytes), proven: firstRead, expect: func(int) {}}
	if e, ok := from.(interface{ expect(n int) }); ok {
		f.expect = e.expect
	}
	return f
}

// next reads a header and the body that follows it. An *Error says that the frame is to be refused, any other error
// that the connection broke or was interrupted. The header is as far as it is known.
func (f *frameReader) next() (header, *Buffer, error) {
	if f.body == nil {
		h, err := f.readHeader()
		if err != nil {
			return h, nil, err
		}
		f.header, f.at = h, 0
		f.body = f.newBuffer(min(h.length, f.proven))
	}
	if err := f.readBody(); err != nil {
		return f.header, nil, fmt.Errorf("read a frame's body of %d bytes: %w", f.header.length, err)
	}
	body := f.body
	f.body = nil
	f.proven = max(f.proven, f.header.length)
	return f.header, body, nil
}

func (f *frameReader) newBuffer(size int) *Buffer {
	if f.header.kind.kept() {
		return newExactBuffer(size)
	}
	return NewBuffer(size)
}

// more says whether the next frame has begun to arrive, so that next will not have to wait for its header.
func (f *frameReader) more() bool { return f.end-f.start >= headerSize }

// drop gives back the memory of a frame that was never completed.
func (f *frameReader) drop() {
	f.body.Release()
	f.body = nil
}

func (f *frameReader) readHeader() (header, error) {
	for f.end-f.start < headerSize {
		if f.start > 0 {
			f.end = copy(f.buffer, f.buffer[f.start:f.end])
			f.start = 0
		}
		n, err := f.from.Read(f.buffer[f.end:])
		f.end += n
		if err != nil && f.end < headerSize {
			if err == io.EOF && f.end > 0 {
				err = io.ErrUnexpectedEOF
			}
			return header{}, err
		}
	}
	h, err := parseHeader(f.buffer[f.start:f.start+headerSize], f.job)
	if err == nil {
		f.start += headerSize
	}
	return h, err
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
		if f.start < f.end {
			n := copy(into, f.buffer[f.start:f.end])
			f.start += n
			f.at += n
			continue
		}
		f.expect(len(into))
		n, err := f.from.Read(into)
		f.expect(0)
		f.at += n
		if err != nil && f.at < f.header.length {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}
