package program

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// mostLog bounds the stored output of one attempt.
	mostLog = 1 << 30
	// tailLines and tailBytes bound the reported output of a program.
	tailLines = 20
	tailBytes = 4 << 10
	// barEvery is the least time between two logged states of a progress bar.
	barEvery = 10 * time.Second
	// mostLine is the longest line in which progress is searched for.
	mostLine = 16 << 10
	// leastSecret is the minimum length of a value to mask: masking every 1 would hide more than a secret.
	leastSecret = 6
)

// output handles a program's output: masks secrets, keeps it in a file, and passes on its lines.
type output struct {
	mu      sync.Mutex
	file    *os.File
	written int64
	failed  error // the first error of writing the file
	mask    masker
	bars    bars
	tail    []byte
	line    []byte
	match   func(line string) // may be nil
}

func newOutput(name string, secrets map[string]string, match func(string)) (*output, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	o := &output{file: file, match: match}
	for _, value := range secrets {
		if len(value) >= leastSecret {
			o.mask.secrets = append(o.mask.secrets, []byte(value))
		}
	}
	// Of two with a common beginning, the longer one.
	slices.SortFunc(o.mask.secrets, func(a, b []byte) int { return len(b) - len(a) })
	return o, nil
}

// Write never fails: a program must not notice that its log cannot be kept.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.take(o.mask.feed(p, false), false)
	return len(p), nil
}

// note adds a line of ours.
func (o *output) note(format string, arguments ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := "[tierml] " + fmt.Sprintf(format, arguments...) + "\n"
	if len(o.tail) > 0 && o.tail[len(o.tail)-1] != '\n' {
		text = "\n" + text
	}
	o.store([]byte(text))
}

func (o *output) take(p []byte, end bool) {
	shown := o.bars.feed(p, time.Now(), end)
	o.store(shown)
	o.tail = append(o.tail, shown...)
	if len(o.tail) > 2*tailBytes {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-tailBytes:]...)
	}
	if o.match == nil {
		return
	}
	for len(p) > 0 {
		i := bytes.IndexAny(p, "\r\n") // progress bars overwrite their line
		if i < 0 {
			o.line = append(o.line, p[:min(len(p), max(0, mostLine-len(o.line)))]...)
			return
		}
		o.line = append(o.line, p[:min(i, max(0, mostLine-len(o.line)))]...)
		o.match(string(o.line))
		o.line, p = o.line[:0], p[i+1:]
	}
}

func (o *output) store(p []byte) {
	if len(p) == 0 || o.written >= mostLog {
		return
	}
	if o.written+int64(len(p)) > mostLog {
		p = append(p[:mostLog-o.written:mostLog-o.written], fmt.Sprintf("\n[tierml] The output beyond %d MiB is not kept.\n", mostLog>>20)...)
	}
	n, err := o.file.Write(p)
	o.written += int64(n)
	if o.failed == nil {
		o.failed = err
	}
}

// end processes held-back output.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.take(o.mask.feed(nil, true), true)
	if o.match != nil && len(o.line) > 0 {
		o.match(string(o.line))
		o.line = nil
	}
}

// last returns the last lines, and whether the file could be written.
func (o *output) last() (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := o.tail
	if len(text) > tailBytes {
		text = text[len(text)-tailBytes:]
	}
	lines := strings.Split(strings.TrimRight(strings.ToValidUTF8(string(text), "?"), "\r\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n"), o.failed
}

func (o *output) close() error { return o.file.Close() }

// bars turns overwritten progress bars into lines, at intervals and at the end: keeping all would make lines of thousands of characters.
type bars struct {
	open bool      // text of the line has been passed on
	back bool      // the last byte was \r
	over []byte    // the overwriting text; nil = none
	next time.Time // when it may be passed on
}

// feed returns what the log keeps. At the end nothing is held back.
func (b *bars) feed(p []byte, now time.Time, end bool) (out []byte) {
	if !b.back && b.over == nil && !end && bytes.IndexByte(p, '\r') < 0 {
		if len(p) > 0 {
			b.open = p[len(p)-1] != '\n'
		}
		return p
	}
	pass := func() {
		if len(bytes.TrimSpace(b.over)) > 0 { // not what clears the line
			if b.open {
				out = append(out, '\n')
			}
			out = append(out, b.over...)
			b.open, b.next = true, now.Add(barEvery)
		}
	}
	for _, c := range p {
		switch {
		case c == '\n':
			pass()
			out = append(out, c)
			b.open, b.back, b.over = false, false, nil
		case c == '\r':
			b.back = true
		default:
			if b.back && (b.over == nil || !now.Before(b.next)) {
				pass()
			}
			if b.back {
				b.back, b.over = false, []byte{}
			}
			if b.over == nil {
				out, b.open = append(out, c), true
			} else if len(b.over) < mostLine {
				b.over = append(b.over, c)
			}
		}
	}
	if end {
		pass()
		b.over = nil
	}
	return out
}

// masker replaces secrets in a stream.
type masker struct {
	secrets [][]byte // the longest first
	held    []byte   // the end of the stream, which may be the beginning of a secret
}

var masked = []byte("***")

// feed returns what may be shown. At the end nothing is held back.
func (m *masker) feed(p []byte, end bool) []byte {
	if len(m.secrets) == 0 {
		return p
	}
	p = append(m.held, p...)
	m.held = nil
	var out []byte
next:
	for i := 0; i < len(p); {
		for _, s := range m.secrets {
			if bytes.HasPrefix(p[i:], s) {
				out, i = append(out, masked...), i+len(s)
				continue next
			}
			if !end && bytes.HasPrefix(s, p[i:]) {
				m.held = bytes.Clone(p[i:])
				return out
			}
		}
		out, i = append(out, p[i]), i+1
	}
	return out
}
