// Package pattern is regular expressions that are compiled when they are first used. A command uses few of the program's, and all
// together are a tenth of its start.
//
// It knows nothing about what they match.
package pattern

import (
	"regexp"
	"sync"
)

// Of returns a regular expression, which must be a right one; that is tested for the whole repository.
func Of(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
