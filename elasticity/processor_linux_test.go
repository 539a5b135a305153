package elasticity

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime returns do's processor time, which other programs on the machine do not change.
func processorTime(do func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spent := func() time.Duration {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
			panic(err)
		}
		return time.Duration(t.Nano())
	}
	began := spent()
	do()
	return spent() - began
}
