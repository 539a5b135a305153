package bidding

import (
	"sort"
	"testing"
)

// TestSearchFromAnyGuess finds what sort.Search finds, whatever it looks at first.
func TestSearchFromAnyGuess(t *testing.T) {
	for n := range 6 {
		for first := range n + 1 {
			found := func(i int) bool { return i >= first }
			for guess := range n + 3 {
				if got, want := searchFrom(n, guess, found), sort.Search(n, found); got != want {
					t.Errorf("the first of %d is %d, from %d on %d", n, want, guess, got)
				}
			}
		}
	}
}
