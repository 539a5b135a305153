// Package spelling finds what a misspelt name most likely means. It does not know what the names stand for.
package spelling

import (
	"fmt"
	"slices"
	"strings"
)

// Nearest returns the candidate that a misspelt name most likely means, or "" when none is close: at most
// one mistake in short names, and one in three letters in longer ones. Of two as close it prefers one that begins with the name.
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", max(1, len(name)/3)+1
	for _, c := range candidates {
		if len(name) > 4*len(c)+8 {
			continue // it has too many letters, and comparing takes a while
		}
		if d := distance(normal(name), normal(c)); d < bestDistance || d == bestDistance && best != "" && strings.HasPrefix(c, name) && !strings.HasPrefix(best, name) {
			best, bestDistance = c, d
		}
	}
	return best
}

// Named is something with a name of its own.
type Named interface{ Name() string }

// Find returns the one with that name. Otherwise its error, worded for this kind of thing, has the nearest name and all others.
func Find[T Named](kind, name string, among []T) (found T, err error) {
	for _, one := range among {
		if one.Name() == name {
			return one, nil
		}
	}
	return found, Check(kind, name, Names(among))
}

// Check rejects a name that is not in the list. Its error, worded for this kind of thing, has the nearest name and all others.
func Check(kind, name string, names []string) error {
	if slices.Contains(names, name) {
		return nil
	}
	meant := ""
	if near := Nearest(name, names); near != "" {
		meant = " (did you mean " + near + "?)"
	}
	return fmt.Errorf("%s %q%s: there are %s", kind, name, meant, strings.Join(names, ", "))
}

// Names returns the names in their order.
func Names[T Named](among []T) (names []string) {
	for _, one := range among {
		names = append(names, one.Name())
	}
	return names
}

// normal maps spellings that people confuse to a common one.
func normal(s string) string {
	return strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(s))
}

// distance returns the number of letters to insert, drop, change or swap with their neighbour to turn a into b
// (optimal string alignment).
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	var before []int
	last := make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row := make([]int, len(t)+1)
		row[0] = i
		for j := 1; j <= len(t); j++ {
			change := 1
			if s[i-1] == t[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(t)]
}
