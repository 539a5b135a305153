package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/rundir"
)

// Poll is the interval at which a growing journal is checked.
const Poll = 250 * time.Millisecond

// Reader reads a journal that may still grow. A line counts once its end is written.
type Reader struct {
	file *os.File
	at   int64  // bytes read
	rest []byte // an incomplete line
	line int    // lines read
}

// Open begins with the first line.
func Open(dir string) (*Reader, error) {
	f, err := os.Open(filepath.Join(dir, rundir.JournalFile))
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	return &Reader{file: f}, nil
}

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }

// pieces bounds what More reads at a time, so that a long journal is not in memory twice.
const pieces = 1 << 20

// More returns new entries; done is true if there are no more for now. A bad line is an error that names it, after the entries before it.
func (r *Reader) More() (entries []journal.Entry, done bool, err error) {
	info, err := r.file.Stat()
	switch {
	case err != nil:
		return nil, true, fmt.Errorf("reading the journal: %w", err)
	case info.Size() < r.at: // the torn last line of a killed run was removed
		r.at, r.rest = r.at-int64(len(r.rest)), nil
	case info.Size() == r.at:
		return nil, true, nil
	}
	piece := make([]byte, pieces)
	n, err := r.file.ReadAt(piece, r.at)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, true, fmt.Errorf("reading the journal: %w", err)
	}
	r.at += int64(n)
	text := append(r.rest, piece[:n]...)
	whole := bytes.LastIndexByte(text, '\n') + 1
	r.rest = bytes.Clone(text[whole:])
	if len(r.rest) > journal.MaxLine {
		return nil, true, fmt.Errorf("journal line %d: longer than %d bytes", r.line+1, journal.MaxLine)
	}
	lines := journal.NewReaderAfter(bytes.NewReader(text[:whole]), r.line)
	for e, err := range lines.All() {
		if err != nil {
			return entries, true, fmt.Errorf("%s: %w", r.file.Name(), err)
		}
		entries = append(entries, e)
	}
	r.line = lines.Line()
	return entries, n == 0, nil
}

// Follow passes on all entries of a run in order, including new ones, until the context ends or no process holds the run's directory any
// longer. Caught is called each time when there is nothing more for now.
func Follow(ctx context.Context, dir string, take func(journal.Entry), caught func()) error {
	return FollowWhile(ctx, dir, func() bool { return rundir.Held(dir) }, take, caught)
}

// FollowWhile is Follow as long as going returns true: a run may be killed and resumed.
func FollowWhile(ctx context.Context, dir string, going func() bool, take func(journal.Entry), caught func()) error {
	r, err := Open(dir)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		more := going() // checked before reading, so that the holder's last writes are read below
		for done := false; !done; {
			var entries []journal.Entry
			entries, done, err = r.More()
			for _, e := range entries {
				take(e)
			}
			if err != nil {
				return err
			}
		}
		if caught(); !more {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(Poll):
		}
	}
}
