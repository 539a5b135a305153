// Package raced reports whether the race detector was compiled in. It takes ten times the processor time and memory, so tests and limits
// that know about it can leave room. It does not know what they do.
package raced
