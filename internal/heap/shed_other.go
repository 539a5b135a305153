//go:build !linux

package heap

import "runtime/debug"

// Shed releases the garbage of a process's start.
func Shed() { debug.FreeOSMemory() }
