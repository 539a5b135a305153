// Package decompress gives the plain bytes of a stream that may be compressed, which it tells from the first bytes:
// people's files carry the wrong names. It refuses to know where streams come from and what is in them.
package decompress

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// most is the memory that a stream may make the decoder take, whatever its header asks for.
const most = 1 << 30

// Reader gives the plain bytes of a stream that may be compressed by gzip or Zstandard. Closing it leaves the stream open.
func Reader(r io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	magic, err := buffered.Peek(len(zstdMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return z, nil
	case bytes.HasPrefix(magic, zstdMagic):
		// One goroutine less to own: with concurrency 1 the decoder works in the caller's.
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(most))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(buffered), nil
}
