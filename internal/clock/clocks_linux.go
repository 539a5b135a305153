package clock

import "golang.org/x/sys/unix"

const sleepless = unix.CLOCK_BOOTTIME
