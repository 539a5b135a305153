// Package start puts the garbage collector off until a command begins: hundreds of packages are initialised with some MB that live as
// long as the process, so that collections meanwhile cost a tenth of a command's start and free nothing. It imports next to nothing,
// and so is initialised before nearly all others.
package start

import "runtime/debug"

var percent = debug.SetGCPercent(-1)

// Done has the collector work as the environment says.
func Done() { debug.SetGCPercent(percent) }
