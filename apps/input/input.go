// Package input reads data files that people have: compressed or not, with a header or not, and with
// mistakes. Every fault is told with file, line and reason. It knows formats of files, not what the
// numbers in them are for.
package input

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// Decompress gives the plain bytes of a file that may be compressed by gzip or zstd, which it tells from the
// first bytes.
func Decompress(r io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(r, 1<<16)
	first, err := buffered.Peek(len(zstdMagic))
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(first, gzipMagic):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return z, nil
	case bytes.HasPrefix(first, zstdMagic):
		// One goroutine less to own, and memory bounded whatever the file's header asks for.
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(buffered), nil
}

// LineError is a fault of one line.
type LineError struct {
	File   string
	Line   int // from 1
	Reason string
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason) }

// tolerance counts bad lines until there are too many.
type tolerance struct {
	allowed int
	bad     int
}

// take gives nil when the line may be left out.
func (t *tolerance) take(fault *LineError) error {
	t.bad++
	switch {
	case t.bad <= t.allowed:
		return nil
	case t.allowed == 0:
		return fault
	}
	return fmt.Errorf("%w (more than the %d bad lines that may be left out)", fault, t.allowed)
}
