// Package pattern compiles regular expressions when they are first used. A command uses few of the program's, and compiling all is a tenth
// of its start.
//
// It does not know what they match.
package pattern

import (
	"regexp"
	"sync"
)

// Of returns a regular expression, which must be valid; a test checks this for the whole repository.
func Of(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
