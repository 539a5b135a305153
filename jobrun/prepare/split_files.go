package prepare

import (
	"io"
	"sync/atomic"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/ps"
)

// Counted adds up what is written.
func Counted(create apps.Create, bytes *atomic.Int64) apps.Create {
	return func(id ps.Split) (io.WriteCloser, error) {
		file, err := create(id)
		return countedFile{file, bytes}, err
	}
}

type countedFile struct {
	io.WriteCloser
	bytes *atomic.Int64
}

func (c countedFile) Write(p []byte) (int, error) {
	n, err := c.WriteCloser.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// Discard is a file that discards its data: a plan only needs its size.
type Discard struct{}

func (Discard) Write(p []byte) (int, error) { return len(p), nil }

func (Discard) Close() error { return nil }

// splitFiles creates split files and keeps the first error of a file, so that a full disk is not mistaken for bad data. Not for concurrent
// use.
type splitFiles struct {
	create apps.Create
	err    error
}

// Create implements apps.Create.
func (s *splitFiles) Create(id ps.Split) (io.WriteCloser, error) {
	f, err := s.create(id)
	return splitFile{f, s}, s.keep(err)
}

func (s *splitFiles) keep(err error) error {
	if s.err == nil && err != nil {
		s.err = err
	}
	return err
}

type splitFile struct {
	io.WriteCloser
	of *splitFiles
}

func (f splitFile) Write(p []byte) (int, error) {
	n, err := f.WriteCloser.Write(p)
	return n, f.of.keep(err)
}

func (f splitFile) Close() error { return f.of.keep(f.WriteCloser.Close()) }
