// Package raced reports whether the race detector was compiled in. It takes ten times the processor time and memory, so tests and limits
// that know of it can leave room. It knows nothing of what they do.
package raced
