//go:build race

package raced

// Detector reports whether the race detector was compiled in.
const Detector = true
