// Package start delays the garbage collector until a command begins: hundreds of packages are initialised with some MB
// that live as long as the process, so collections during that cost a tenth of a command's start and free nothing. It
// imports next to nothing, and so is initialised before nearly all others.
package start

import "runtime/debug"

var percent = debug.SetGCPercent(-1)

// Done restores the collector's setting from the environment.
func Done() { debug.SetGCPercent(percent) }
