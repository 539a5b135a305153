//go:build !linux

package elasticity

import "time"

// processorTime returns wall-clock time: only Linux reports a thread's processor time.
func processorTime(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}
