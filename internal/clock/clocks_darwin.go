package clock

import "golang.org/x/sys/unix"

const sleepless = unix.CLOCK_MONOTONIC // of Darwin's clocks it is the one that goes on while the host sleeps
