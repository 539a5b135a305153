//go:build race

package node

// raceEnabled reports whether the race detector watches: it makes arithmetic many times slower.
const raceEnabled = true
