// Package blob reads and writes files wherever they are: a path on this machine (also as file:///PATH), s3://BUCKET/KEY or
// gs://BUCKET/KEY. It is the one place that knows object stores; it does not know what is in a file. Credentials, region and endpoint come
// from where the providers' own tools take them. A build with -tags noblob leaves the stores, and the tens of megabytes
// of their libraries, out.
package blob

import (
	"context"
	"io"
	"os"

	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/plainfile"
)

// Open opens a file or object for reading. One that is not there is an fs.ErrNotExist.
func Open(ctx context.Context, name string) (io.ReadCloser, error) {
	p, err := location.Parse(name)
	if err != nil {
		return nil, err
	}
	if p.Scheme() == "" {
		return plainfile.Open(p.Key())
	}
	return openObject(ctx, name, p, 0, -1)
}

// OpenRange opens a part of a file or object for reading: so many bytes from an offset on.
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
