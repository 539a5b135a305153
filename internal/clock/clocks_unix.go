//go:build linux || darwin

package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// clocks reads the host's time of day and the clock that cannot be set, which runs while the host sleeps, in that order.
func clocks() (day, steady time.Duration, ok bool) {
	var d, s unix.Timespec
	ok = unix.ClockGettime(unix.CLOCK_REALTIME, &d) == nil && unix.ClockGettime(sleepless, &s) == nil
	return time.Duration(d.Nano()), time.Duration(s.Nano()), ok
}
