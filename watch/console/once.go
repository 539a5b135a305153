package console

import (
	"cmp"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/tierml/tierml/internal/table"
	"github.com/tierml/tierml/internal/terminal"
	"github.com/tierml/tierml/watch/status"
)

// onceWidth and onceHeight are the size of the screen drawn without a terminal.
const (
	onceWidth  = 100
	onceHeight = 30
)

// WriteOnce writes the present live view of a run, without the keys, and with colours only on request.
func WriteOnce(out io.Writer, s *status.Status, color bool) error {
	return writeOnce(out, s, cmp.Or(table.Width(out), onceWidth), color)
}

func writeOnce(out io.Writer, s *status.Status, width int, color bool) error {
	lines := strings.Split(picture{Status: s, watching: true}.draw(s.Now, width, onceHeight, 0), "\n")
	if s.Outcome == "" {
		lines = lines[:len(lines)-1] // the keys
	}
	var b strings.Builder
	blank := false
	for _, line := range lines {
		if !color {
			line = ansi.Strip(line)
		}
		empty := strings.TrimSpace(ansi.Strip(line)) == ""
		if !empty {
			if blank && b.Len() > 0 {
				b.WriteString("\n")
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		blank = empty
	}
	_, err := io.WriteString(terminal.Raw(out), b.String()) // draw has cleaned it
	return err
}
