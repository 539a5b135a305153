package terminal

import "github.com/charmbracelet/x/term"

// IsTerminal reports whether a person can be on the other side of a stream.
func IsTerminal(stream any) bool {
	file, ok := File(stream)
	return ok && term.IsTerminal(file.Fd())
}
