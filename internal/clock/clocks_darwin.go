package clock

import "golang.org/x/sys/unix"

const sleepless = unix.CLOCK_MONOTONIC // Darwin's clock that runs while the host sleeps
