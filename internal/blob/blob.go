// Package blob reads and writes files wherever they are: a path on this machine (also as file:///PATH), s3://BUCKET/KEY or gs://BUCKET/KEY.
// It is the only package that knows object stores; it does not know files' contents. Credentials, region and endpoint come from the same
// sources as in the providers' own tools.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/plainfile"
)

// Open opens a file or object for reading. If it does not exist the error is an fs.ErrNotExist.
func Open(ctx context.Context, name string) (io.ReadCloser, error) {
	p, err := location.Parse(name)
	if err != nil {
		return nil, err
	}
	if p.Scheme() == "" {
		return openFile(p.Key())
	}
	return openObject(ctx, name, p, 0, -1)
}

// ErrChanged ends reading a local file that is written meanwhile.
var ErrChanged = errors.New("the file was changed while it was read")

// openFile opens a local file, which may not change until it has been read.
func openFile(path string) (io.ReadCloser, error) {
	file, err := plainfile.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		return &unchanging{file, info}, nil
	}
	return file, nil
}

// unchanging is a file that is read as it was when it was opened, or not at all: half a file that is being written, or was truncated, may
// look like a smaller complete one.
type unchanging struct {
	file   *os.File
	opened fs.FileInfo
}

// Close implements io.Closer.
func (u *unchanging) Close() error { return u.file.Close() }

// Read implements io.Reader.
func (u *unchanging) Read(p []byte) (int, error) {
	n, err := u.file.Read(p)
	if errors.Is(err, io.EOF) {
		now, failed := u.file.Stat()
		if failed == nil && (now.Size() != u.opened.Size() || !now.ModTime().Equal(u.opened.ModTime())) {
			return n, fmt.Errorf("%w: it had %d bytes, and now has %d; try again when nothing writes to it",
				ErrChanged, u.opened.Size(), now.Size())
		}
	}
	return n, err
}

// OpenRange opens a part of a file or object for reading: size bytes from an offset on.
func OpenRange(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	p, err := location.Parse(name)
	if err != nil {
		return nil, err
	}
	if p.Scheme() != "" {
		return openObject(ctx, name, p, offset, length)
	}
	file, err := os.Open(p.Key())
	if err != nil {
		return nil, err
	}
	return section{io.NewSectionReader(file, offset, length), file}, nil
}

type section struct {
	io.Reader
	io.Closer
}
