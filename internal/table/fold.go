package table

import (
	"bytes"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Folded lets a function write to w, breaking lines at spaces if w is a terminal that is too narrow for them.
func Folded(w io.Writer, write func(io.Writer) error) error {
	width := Width(w)
	if width == 0 {
		return write(w)
	}
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}
	_, err := io.WriteString(w, fold(text.String(), width))
	return err
}

// fold breaks lines that exceed a width. The remainder is indented by two more columns; of several blanks between words two are kept.
func fold(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if ansi.StringWidth(line) > width {
			line = foldLine(strings.TrimRight(line, "\n"), width)
		}
		b.WriteString(line)
	}
	return b.String()
}

func foldLine(line string, width int) string {
	rest := strings.TrimLeft(line, " ")
	indent := strings.Repeat(" ", min(len(line)-len(rest), width/4))
	hanging := indent + "  "
	var lines []string
	current, blanks, empty := indent, "", true
	for rest != "" {
		word := rest
		if i := strings.IndexByte(rest, ' '); i >= 0 {
			word = rest[:i]
		}
		if !empty && ansi.StringWidth(current+blanks+word) > width {
			lines, current, blanks = append(lines, current), hanging, ""
		}
		current, empty = current+blanks+word, false
		next := strings.TrimLeft(rest[len(word):], " ")
		blanks = strings.Repeat(" ", min(len(rest)-len(word)-len(next), gap))
		rest = next
	}
	return strings.Join(append(lines, current), "\n") + "\n"
}
