//go:build !linux

package heap

import "runtime/debug"

// Shed gives back the garbage of a process's start.
func Shed() { debug.FreeOSMemory() }
