//go:build race

package confine

// raced: the race detector takes more memory than the tests allow.
const raced = true
