//go:build !linux

package elasticity

import "time"

// processorTime returns the time on the clock: only Linux tells a thread's.
func processorTime(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}
