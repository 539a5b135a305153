// Package blob reads and writes files wherever they are: a path on this machine (also as file:///PATH), s3://BUCKET/KEY or
// gs://BUCKET/KEY. It is the one place that knows object stores; it does not know what is in a file. Credentials, region and endpoint come
// from where the providers' own tools take them. A build with -tags noblob leaves the stores, and the tens of megabytes
// of their libraries, out.
package blob

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// place is where a name leads to.
type place struct {
	scheme string // "" is a path on this machine
	bucket string
	key    string
	query  url.Values // settings of the store, as gocloud.dev knows them, such as region
}

// IsURL says whether a name is that of an object in a store, not a path.
func IsURL(name string) bool { return strings.Contains(name, "://") }

// Check says what is wrong with the URL of an object, without looking for the object.
func Check(name string) error {
	_, err := parse(name)
	return err
}

func parse(name string) (place, error) {
	if !IsURL(name) {
		return place{key: name}, nil
	}
	u, err := url.Parse(name)
	if err != nil {
		return place{}, fmt.Errorf("%s is not a URL: write s3://BUCKET/KEY or gs://BUCKET/KEY", name)
	}
	p := place{scheme: u.Scheme, bucket: u.Host, key: strings.TrimPrefix(u.Path, "/"), query: u.Query()}
	switch {
	case p.scheme == "file" && p.bucket == "" && u.Path != "":
		return place{key: u.Path}, nil
	case p.scheme == "file":
		return place{}, fmt.Errorf("%s: write file:///PATH", name)
	case p.scheme != "s3" && p.scheme != "gs":
		return place{}, fmt.Errorf("%s: there is no store %q: write s3://BUCKET/KEY or gs://BUCKET/KEY", name, p.scheme)
	case p.bucket == "" || p.key == "" || u.User != nil || u.Fragment != "":
		return place{}, fmt.Errorf("%s: write %s://BUCKET/KEY", name, p.scheme)
	}
	return p, nil
}

// Open opens a file or object for reading. One that is not there is an fs.ErrNotExist.
func Open(ctx context.Context, name string) (io.ReadCloser, error) {
	p, err := parse(name)
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
	p, err := parse(name)
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

// Beside gives the name of another file in the same folder.
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

// Join gives the name of something below a folder.
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
