// Package splitmem keeps split files in memory: for training in one process, tests and benchmarks of applications. It does not look at
// their contents.
package splitmem

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"

	"github.com/tierml/tierml/ps"
)

// Files are split files by split number. Its methods are an apps.Create and an apps.Open. Do not use it concurrently while files are
// created.
type Files map[ps.Split]*bytes.Buffer

// Create starts a split's file, replacing its contents.
func (f Files) Create(id ps.Split) (io.WriteCloser, error) {
	f[id] = new(bytes.Buffer)
	return file{f[id]}, nil
}

// Open reads a split's file from its beginning; fs.ErrNotExist if it was not created.
func (f Files) Open(id ps.Split) (io.ReadCloser, error) {
	b := f[id]
	if b == nil {
		return nil, fmt.Errorf("split %d: %w", id, fs.ErrNotExist)
	}
	return reader{bytes.NewReader(b.Bytes()), b.Bytes()}, nil
}

type reader struct {
	*bytes.Reader
	all []byte
}

func (reader) Close() error { return nil }

// Held returns the whole file: see apps.ReadSplit.
func (r reader) Held() []byte { return r.all }

type file struct{ *bytes.Buffer }

func (file) Close() error { return nil }
