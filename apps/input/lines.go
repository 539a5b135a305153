package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
)

// lineFile is a text read in pieces of whole lines, which several threads parse at the same time. Results and errors equal those of reading
// line by line in one thread. Only pieces in flight are in memory.
type lineFile struct {
	name    string
	in      io.Reader
	longest int    // a line of this many bytes is too long
	format  string // the expected format, for messages about lines that are too long
	lines   int    // lines returned so far
	carry   []byte // the beginning of a line
	err     error  // error after the returned pieces
	unused  sync.Pool
}

// Pieces grow up to pieceSize, so that small files take little memory. With 512 KiB each, the text and results of two threads fit
// into the caches.
const (
	firstPiece = 16 << 10
	pieceSize  = 512 << 10
)

// piece holds some whole lines.
type piece struct {
	file    *lineFile
	text    []byte
	line    int // number of the first line, from 1
	allowed int // bad lines: with more, the rest need not be parsed
	faults  []*LineError
	tooLong bool // the last fault is fatal
}

// next returns some lines with their line ends; a file's last line may lack one. nil means end of file, or f.err.
func (f *lineFile) next() []byte {
	if f.err != nil {
		return nil
	}
	size := min(firstPiece*max(f.lines, 1), pieceSize)
	buffer, _ := f.unused.Get().([]byte)
	if cap(buffer) < max(size, 2*len(f.carry)) {
		buffer = make([]byte, max(size, 2*len(f.carry)))
	}
	buffer = buffer[:cap(buffer)]
	filled := copy(buffer, f.carry)
	f.carry = nil
	for {
		for f.err == nil && filled < len(buffer) {
			var n int
			n, f.err = f.in.Read(buffer[filled:])
			filled += n
		}
		end := bytes.LastIndexByte(buffer[:filled], '\n') + 1
		switch {
		case errors.Is(f.err, io.EOF):
			if text := bytes.TrimRight(buffer[:filled], "\r\n"); filled > len(text)+len("\r\n") { // empty lines at the end
				filled = len(text) + 1 + bytes.IndexByte(buffer[len(text):filled], '\n')
			}
			return buffer[:filled]
		case f.err != nil: // the rest before an error is half a line
			return buffer[:end]
		case end > 0:
			f.carry = bytes.Clone(buffer[end:filled])
			return buffer[:end]
		case filled >= f.longest:
			f.err = io.EOF
			return buffer[:filled] // the line that is too long
		}
		buffer = append(buffer, make([]byte, len(buffer))...)
	}
}

// cut returns the first line of a text, without its line end, and the rest.
func cut(text []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(text, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), rest
}

// each calls a function for every line, which parses it or returns why it is bad.
func (p *piece) each(parse func(line []byte, number int) (reason string)) {
	for rest, number := p.text, p.line; len(rest) > 0; number++ {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			end = len(rest)
		}
		line := rest[:end]
		rest = rest[min(end+1, len(rest)):]
		if end >= p.file.longest {
			p.tooLong = true
			p.faults = append(p.faults, p.file.fault(number, fmt.Sprintf("longer than %d bytes%s", p.file.longest, p.file.format)))
			return
		}
		if end > 0 && line[end-1] == '\r' {
			line = line[:end-1]
		}
		if reason := parse(line, number); reason != "" {
			if p.faults = append(p.faults, p.file.fault(number, reason)); len(p.faults) > p.allowed {
				return
			}
		}
	}
}

func (f *lineFile) fault(line int, reason string) *LineError { return &LineError{f.name, line, reason} }

// readLines parses a file in several threads. First, head gets the lines in turn until it declines one. Results are consumed in
// order.
func readLines[T any](f *lineFile, bad *tolerance, head func(line []byte, number int) (mine bool, err error), parse func(*piece) T, take func(T) error) error {
	text := f.next()
	for mine := head != nil; mine && len(text) > 0; {
		line, rest := cut(text)
		if len(text)-len(rest) > f.longest {
			break // reported by the pieces
		}
		var err error
		if mine, err = head(line, f.lines+1); err != nil {
			return err
		}
		if !mine {
			break
		}
		f.lines++
		if text = rest; len(text) == 0 {
			text = f.next()
		}
	}
	type done struct {
		piece *piece
		got   T
	}
	var (
		pieces = make(chan chan done, runtime.GOMAXPROCS(0))
		stop   = make(chan struct{})
		wait   sync.WaitGroup
	)
	defer wait.Wait()
	defer close(stop)
	allowed := bad.allowed - bad.bad // in this piece alone; below, each fault counts against the rest of the file, too
	wait.Go(func() {
		defer close(pieces)
		for ; len(text) > 0; text = f.next() {
			p := &piece{file: f, text: text, line: f.lines + 1, allowed: allowed}
			if f.lines += bytes.Count(text, []byte("\n")); text[len(text)-1] != '\n' {
				f.lines++
			}
			parsed := make(chan done, 1)
			select {
			case pieces <- parsed:
			case <-stop:
				return
			}
			wait.Go(func() { parsed <- done{p, parse(p)} })
		}
	})
	for parsed := range pieces {
		d := <-parsed
		for i, fault := range d.piece.faults {
			if d.piece.tooLong && i == len(d.piece.faults)-1 {
				return fault
			}
			if err := bad.take(fault); err != nil {
				return err
			}
		}
		if err := take(d.got); err != nil {
			return err
		}
		//lint:ignore SA6002 a slice header is small compared with what it saves
		f.unused.Put(d.piece.text)
	}
	if f.err != nil && !errors.Is(f.err, io.EOF) {
		return fmt.Errorf("%s: after line %d: %w", f.name, f.lines, f.err)
	}
	return nil
}
