// Package input reads users' data files: compressed or not, with or without a header, and with mistakes. It reports every fault
// with file, line and reason. It knows file formats, not the meaning of the numbers.
package input

import (
	"fmt"
	"strings"
)

// LineError is a fault in one line.
type LineError struct {
	File   string
	Line   int // from 1
	Reason string
}

func (e *LineError) Error() string {
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, readable(e.Reason))
}

// readable removes the middle of a long reason, which may quote a field of megabytes.
func readable(reason string) string {
	const most, ends = 500, 200
	if len(reason) <= most {
		return reason
	}
	return strings.ToValidUTF8(reason[:ends], "") + " ... " + strings.ToValidUTF8(reason[len(reason)-ends:], "")
}

// tolerance counts bad lines, up to a limit.
type tolerance struct {
	allowed int
	bad     int
}

// take returns nil if the line may be skipped.
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
