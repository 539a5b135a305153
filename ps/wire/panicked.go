package wire

import "runtime/debug"

// Panicked is called for a panic in a goroutine, which ends the process when it returns: nothing is known of what the goroutine had
// locked and half changed. Nil: it is not reported.
type Panicked func(value any, stack []byte)

// Report is deferred by goroutines, first of all, so that a panic does not end the process without a report.
func (to Panicked) Report() {
	if to == nil {
		return
	}
	if value := recover(); value != nil {
		to(value, debug.Stack())
		panic(value)
	}
}
