package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"
)

// Torn is an incomplete last line left by a killed writer.
type Torn struct {
	Line  int // counted from 1
	Bytes int // bytes lost
}

// String describes it.
func (t Torn) String() string {
	return fmt.Sprintf("line %d was torn when its writer was killed (%d bytes lost)", t.Line, t.Bytes)
}

// Reader reads a journal from its beginning. One torn last line is tolerated and reported by Torn; any other bad line is an error that
// names its number. Unknown kinds and fields are no error: a newer program may have written them.
type Reader struct {
	in      *bufio.Reader
	line    int
	whole   int64 // bytes of completely read lines
	unended bool  // the last line has no newline, yet is complete
	torn    *Torn
}

// NewReader reads from r, which it buffers.
func NewReader(r io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, 64<<10)}
}

// NewReaderAfter reads the lines that follow the first n: errors count from the journal's beginning.
func NewReaderAfter(r io.Reader, n int) *Reader {
	reader := NewReader(r)
	reader.line = n
	return reader
}

// Next returns the next entry, io.EOF after the last one, or an error that says which line is bad. Empty lines are skipped.
func (r *Reader) Next() (Entry, error) {
	for {
		line, err := r.readLine()
		ended := err == nil
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			return Entry{}, err
		}
		r.line++
		if ended && len(bytes.TrimSpace(line)) == 0 {
			r.whole += int64(len(line))
			continue
		}
		e, err := parse(line)
		switch {
		case err == nil:
			r.whole += int64(len(line))
			r.unended = !ended
			return e, nil
		case !ended: // no proper prefix of a JSON object is one, so a torn line never parses
			r.torn = &Torn{Line: r.line, Bytes: len(line)}
			return Entry{}, io.EOF
		default:
			return Entry{}, &Damaged{Line: r.line, Err: err}
		}
	}
}

// readLine returns the next line with its newline; with io.EOF, the rest without one.
func (r *Reader) readLine() ([]byte, error) {
	var line []byte
	for {
		piece, err := r.in.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > MaxLine:
			return nil, fmt.Errorf("journal line %d: longer than %d bytes", r.line+1, MaxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil || errors.Is(err, io.EOF):
			return line, err
		default:
			return nil, fmt.Errorf("reading journal line %d: %w", r.line+1, err)
		}
	}
}

func parse(line []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(line, &e); err != nil {
		return Entry{}, err
	}
	switch {
	case e.Kind == "":
		return Entry{}, errors.New("it has no kind")
	case e.T.IsZero():
		return Entry{}, errors.New("it has no time t")
	}
	e = normal(e)
	for _, t := range []*time.Time{&e.T, e.At, e.Launched, e.Ended, e.Deadline} {
		if t != nil && (t.Year() < 1 || t.Year() > 9999) { // converted to UTC a time can leave JSON's range of years
			return Entry{}, fmt.Errorf("time %v is out of range", t)
		}
	}
	return e, nil
}

// All iterates over the remaining entries. An error comes last.
func (r *Reader) All() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for {
			e, err := r.Next()
			if errors.Is(err, io.EOF) || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Line returns the number of the last line read, counted from 1.
func (r *Reader) Line() int { return r.line }

// Torn reports a torn last line; it is nil until the end was reached, and if there was none.
func (r *Reader) Torn() *Torn { return r.torn }

// ReadFile reads a whole journal.
func ReadFile(path string) ([]Entry, *Torn, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the journal: %w", err)
	}
	defer f.Close()
	var entries []Entry
	r := NewReader(f)
	for e, err := range r.All() {
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		entries = append(entries, e)
	}
	return entries, r.Torn(), nil
}
