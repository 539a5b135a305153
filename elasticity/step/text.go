package step

import (
	"fmt"
	"strings"
	"unicode"
)

// mostPrintable bounds the length of an agent's message that is kept.
const mostPrintable = 16 << 10

// Printable returns a text from a machine in a form that is safe for terminals, journals and pages.
func Printable(text string) string {
	if len(text) > mostPrintable {
		text = text[:mostPrintable]
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', unicode.IsPrint(r):
			return r
		case r == '\r':
			return -1
		}
		return '?'
	}, strings.ToValidUTF8(text, "?"))
}

// Number counts things in words.
func Number(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return fmt.Sprintf("%d %s", n, of)
}
