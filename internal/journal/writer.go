package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// MaxLine is the longest line in bytes, including its newline, that is written or read.
const MaxLine = 16 << 20

// File is what a Writer needs of the file that it appends to.
type File interface {
	io.Writer // appends, wherever the end of the file is
	io.Closer
	Sync() error
	Truncate(size int64) error
}

// Writer appends entries, one line and one write call each, so that a killed process leaves at most one torn line, the last one. It may be
// used by several goroutines.
//
// If a line cannot be written in full (the disk is full), the torn piece is removed and the caller gets the error; later lines may succeed.
// While the piece cannot be removed, every Write fails rather than bury a torn line in the middle.
type Writer struct {
	mu      sync.Mutex
	file    File
	size    int64 // bytes of whole lines
	torn    bool  // more than size bytes are in the file
	closed  bool
	buf     bytes.Buffer
	observe func(Entry)
}

// Create starts the journal of a run; it must not exist yet. Observe, if not nil, is called with every entry
// that was written, in the order of the lines and never concurrently; it must not write to the journal.
func Create(path string, observe func(Entry)) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("creating the journal: %w", err)
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("creating the journal: %w", err)
	}
	return NewWriter(f, 0, observe), nil
}

// Resume appends to the journal of a run that was stopped or killed. It first reads the entries, returns them, and removes a torn last
// line.
func Resume(path string, observe func(Entry)) (*Writer, []Entry, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("resuming the journal: %w", err)
	}
	w, past, err := resume(f, observe)
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("resuming the journal %s: %w", path, err)
	}
	return w, past, nil
}

func resume(f *os.File, observe func(Entry)) (*Writer, []Entry, error) {
	var past []Entry
	r := NewReader(f)
	for e, err := range r.All() {
		if err != nil {
			return nil, nil, err
		}
		past = append(past, e)
	}
	if err := f.Truncate(r.whole); err != nil {
		return nil, nil, fmt.Errorf("cutting off a torn last line: %w", err)
	}
	if r.unended { // a complete object whose newline was lost
		if _, err := f.Write([]byte{'\n'}); err != nil {
			return nil, nil, err
		}
		r.whole++
	}
	return NewWriter(f, r.whole, observe), past, nil
}

// NewWriter appends to a file that holds size bytes of whole lines.
func NewWriter(f File, size int64, observe func(Entry)) *Writer {
	return &Writer{file: f, size: size, observe: observe}
}

// Write appends one entry. Entries of a durable kind are on disk when it returns nil. Times are written in UTC; a NaN loss is omitted.
func (w *Writer) Write(e Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return fmt.Errorf("journal: writing %q: %w", e.Kind, os.ErrClosed)
	}
	e = normal(e)
	if err := w.append(e); err != nil {
		return fmt.Errorf("journal: writing %q: %w", e.Kind, err)
	}
	if w.observe != nil {
		w.observe(e)
	}
	if e.Kind.Durable() {
		if err := w.file.Sync(); err != nil {
			return fmt.Errorf("journal: %q is written but may not survive a crash of the machine: %w", e.Kind, err)
		}
	}
	return nil
}

// append writes the line completely or not at all.
func (w *Writer) append(e Entry) error {
	w.buf.Reset()
	encoder := json.NewEncoder(&w.buf)
	encoder.SetEscapeHTML(false) // keep "2 -> 3" readable
	if err := encoder.Encode(e); err != nil {
		return err
	}
	if w.buf.Len() > MaxLine {
		return fmt.Errorf("the line has %d bytes, more than %d", w.buf.Len(), MaxLine)
	}
	if err := w.cutTorn(); err != nil {
		return err
	}
	n, err := w.file.Write(w.buf.Bytes())
	if err == nil && n < w.buf.Len() {
		err = io.ErrShortWrite
	}
	if err == nil {
		w.size += int64(n)
		return nil
	}
	w.torn = true // even if n is 0: do not trust the count of a write that failed
	return errors.Join(err, w.cutTorn())
}

// cutTorn removes the remains of a failed write.
func (w *Writer) cutTorn() error {
	if !w.torn {
		return nil
	}
	if err := w.file.Truncate(w.size); err != nil {
		return fmt.Errorf("cutting off a torn line: %w", err)
	}
	w.torn = false
	return nil
}

// Close puts everything on disk and closes the file. A second Close does nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	if err := errors.Join(w.cutTorn(), w.file.Sync(), w.file.Close()); err != nil {
		return fmt.Errorf("closing the journal: %w", err)
	}
	return nil
}

// normal returns the entry as in its line, so that an observer sees the same as a reader.
func normal(e Entry) Entry {
	e.T = e.T.UTC()
	e.At, e.Launched, e.Ended, e.Deadline = utc(e.At), utc(e.Launched), utc(e.Ended), utc(e.Deadline)
	e.TrainLoss, e.TestLoss = finite(e.TrainLoss), finite(e.TestLoss)
	return e
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func finite(v *float64) *float64 {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return nil
	}
	return v
}

// syncDir makes a new name in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
