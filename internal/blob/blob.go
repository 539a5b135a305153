// Package blob reads and writes files wherever they are: a path on this machine (also as file:///PATH), s3://BUCKET/KEY or
// gs://BUCKET/KEY. It is the one place that knows object stores; it does not know what is in a file. Credentials, region and endpoint come
// from where the providers' own tools take them. A build with -tags noblob leaves the stores, and the tens of megabytes
// of their libraries, out.
package blob

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// IsURL reports whether a name is a URL, not a path.
func IsURL(name string) bool { return strings.Contains(name, "://") }

// Open opens a file or object for reading. One that is not there is an fs.ErrNotExist.
func Open(ctx context.Context, name string) (io.ReadCloser, error) {
	p, err := Parse(name)
	if err != nil {
		return nil, err
	}
	if p.scheme == "" {
		return os.Open(p.key)
	}
	return openObject(ctx, name, p, 0, -1)
}

// OpenRange opens a part of a file or object for reading: so many bytes from an offset on.
func OpenRange(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	p, err := Parse(name)
	if err != nil {
		return nil, err
	}
	if p.scheme != "" {
		return openObject(ctx, name, p, offset, length)
	}
	file, err := os.Open(p.key)
	if err != nil {
		return nil, err
	}
	return section{io.NewSectionReader(file, offset, length), file}, nil
}

type section struct {
	io.Reader
	io.Closer
}

// Beside returns the name of another file in the same folder.
func Beside(name, other string) string {
	if !IsURL(name) {
		return filepath.Join(filepath.Dir(name), filepath.Base(other))
	}
	location, query, found := strings.Cut(name, "?")
	scheme, rest, _ := strings.Cut(location, "://")
	location = scheme + "://" + path.Join(path.Dir(rest), path.Base(other))
	if found {
		location += "?" + query
	}
	return location
}

// Join returns the name of something below a folder.
func Join(folder string, below ...string) string {
	if !IsURL(folder) {
		return filepath.Join(append([]string{folder}, below...)...)
	}
	location, query, found := strings.Cut(folder, "?")
	scheme, rest, _ := strings.Cut(location, "://")
	location = scheme + "://" + path.Join(append([]string{rest}, below...)...)
	if found {
		location += "?" + query
	}
	return location
}
