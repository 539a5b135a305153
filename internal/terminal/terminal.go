// Package terminal keeps text from other sources from controlling the terminal that shows it: names, log lines and messages may contain
// escape sequences, which move the cursor, rewrite what was printed, or type answers for the reader.
//
// The program's two output streams are Writers, so everything printed is escaped, whether it goes to a terminal or into a pipe. Only code
// that draws on a terminal itself writes to the File below, and cleans the texts that it draws.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// harmless reports whether a character only shows itself. The others are the control characters of both sets, those that reorder text, and
// line separators other than newline.
func harmless(r rune) bool {
	return !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r) && r != '\u2028' && r != '\u2029'
}

// Clean escapes what could control a terminal as JSON does, such as \u001b, so that JSON keeps its meaning. Newlines and tabs stay. Bytes
// that are not UTF-8 become \x9b and the like.
func Clean(text string) string {
	return clean(text, func(r rune) bool { return r == '\n' || r == '\t' || harmless(r) })
}

// Line is Clean for text that must stay on its line, such as a table's cell: newlines and tabs become \n and \t.
func Line(text string) string { return clean(text, harmless) }

// Unsafe reports whether Clean would change a text.
func Unsafe(text string) bool { return Clean(text) != text }

func clean(text string, keep func(rune) bool) string {
	var b strings.Builder
	from := 0 // everything before it is in b
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		broken := r == utf8.RuneError && n == 1
		if broken || !keep(r) {
			b.WriteString(text[from:i])
			b.WriteString(escape(r, text[i], broken))
			from = i + n
		}
		i += n
	}
	if from == 0 {
		return text
	}
	b.WriteString(text[from:])
	return b.String()
}

func escape(r rune, first byte, broken bool) string {
	switch {
	case broken:
		return fmt.Sprintf(`\x%02x`, first)
	case r == '\n':
		return `\n`
	case r == '\t':
		return `\t`
	}
	return fmt.Sprintf(`\u%04x`, r) // all are in the basic plane
}

// Writer cleans what it writes. It may be used by several goroutines.
type Writer struct {
	mu   sync.Mutex
	out  io.Writer
	held []byte // the beginning of a character that is not complete yet
	err  error  // the first write error
}

// NewWriter wraps a stream.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write escapes p and writes it.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := append(w.held, p...)
	whole := len(all) - partial(all)
	w.held = append([]byte(nil), all[whole:]...)
	if whole == 0 {
		return len(p), nil
	}
	if err := w.pass(string(all[:whole])); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *Writer) pass(text string) error {
	_, err := io.WriteString(w.out, Clean(text))
	if w.err == nil {
		w.err = err
	}
	return err
}

// Flush writes the held bytes, which are not a whole character, and returns the first write error.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if rest := string(w.held); rest != "" {
		w.held = nil
		_ = w.pass(rest) // kept
	}
	return w.err
}

// partial returns how many bytes at the end of p begin a character without ending it.
func partial(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if tail := p[len(p)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Raw returns the stream below a Writer, for code that draws on a terminal and cleans the texts that it draws; any other stream is returned
// unchanged.
func Raw(stream io.Writer) io.Writer {
	if w, ok := stream.(*Writer); ok {
		return w.out
	}
	return stream
}

// File returns the file below a stream, if there is one: a terminal is a file.
func File(stream any) (*os.File, bool) {
	if w, ok := stream.(*Writer); ok {
		stream = w.out
	}
	file, ok := stream.(*os.File)
	return file, ok
}

// Text consists of cleaned text and styles. The zero value is empty.
type Text struct{ b strings.Builder }

// Write adds p, cleaned. Each call must pass whole characters.
func (t *Text) Write(p []byte) (int, error) { return t.WriteString(string(p)) }

// WriteString adds text, cleaned.
func (t *Text) WriteString(text string) (int, error) {
	t.b.WriteString(Clean(text))
	return len(text), nil
}

// Paint adds cleaned text between two escape sequences of our own; if the first is empty, it adds neither.
func (t *Text) Paint(code, text string) {
	if code == "" {
		t.b.WriteString(Clean(text))
		return
	}
	t.b.WriteString(code + Clean(text) + "\x1b[0m")
}

// String returns the text so far.
func (t *Text) String() string { return t.b.String() }
