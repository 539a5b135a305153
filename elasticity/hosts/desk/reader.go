package desk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tierml/tierml/elasticity/hosts"
)

// Reader follows a stored book while its Desk writes it. It is not safe for concurrent use.
type Reader struct {
	directory string
	at        int64 // bytes read
	book      *hosts.Book
}

// NewReader reads the book in the directory of the shared hosts' run.
func NewReader(directory string) *Reader { return &Reader{directory: directory} }

// Book returns the current book, read-only; nil = there is none. An incomplete last line is left for the next call.
func (r *Reader) Book() (*hosts.Book, error) {
	file, err := os.Open(filepath.Join(r.directory, BookFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the book of slots: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); r.book == nil || err == nil && info.Size() < r.at {
		r.book, r.at = hosts.NewBook(hosts.Rules{}), 0
	}
	text, err := io.ReadAll(io.NewSectionReader(file, r.at, 1<<40))
	if err != nil {
		return nil, fmt.Errorf("reading the book of slots: %w", err)
	}
	lines, whole, err := hosts.ReadLines(text)
	for _, l := range lines {
		err = errors.Join(err, r.book.Apply(l))
	}
	if err != nil {
		r.book = nil
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(r.directory, BookFile), err)
	}
	r.at += int64(whole)
	return r.book, nil
}
