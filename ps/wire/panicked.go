package wire

import "runtime/debug"

// Panicked is called for a panic in a goroutine, which ends the process when it returns: locks and half-changed data are in an unknown
// state. Nil: it is not reported.
type Panicked func(value any, stack []byte)

// Report must be the first deferred call of goroutines, so that no panic ends the process without a report.
func (to Panicked) Report() {
	if to == nil {
		return
	}
	if value := recover(); value != nil {
		to(value, debug.Stack())
		panic(value)
	}
}
