// Package input reads data files that people have: compressed or not, with a header or not, and with
// mistakes. Every fault is reported with file, line and reason. It knows formats of files, not what the
// numbers in them are for.
package input

import (
	"fmt"
	"strings"
)

// LineError is a fault of one line.
type LineError struct {
	File   string
	Line   int // from 1
	Reason string
}

func (e *LineError) Error() string {
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, readable(e.Reason))
}

// readable leaves out the middle of a long reason: it quotes a field, which may have megabytes.
func readable(reason string) string {
	const most, ends = 500, 200
	if len(reason) <= most {
		return reason
	}
	return strings.ToValidUTF8(reason[:ends], "") + " ... " + strings.ToValidUTF8(reason[len(reason)-ends:], "")
}

// tolerance counts bad lines until there are too many.
type tolerance struct {
	allowed int
	bad     int
}

// take returns nil when the line may be left out.
func (t *tolerance) take(fault *LineError) error {
	t.bad++
	switch {
	case t.bad <= t.allowed:
		return nil
	case t.allowed == 0:
		return fault
	}
	return fmt.Errorf("%w (more than the %d bad lines that may be left out)", fault, t.allowed)
}
