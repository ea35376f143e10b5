package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock is the time since boot, without the time that the machine slept if awake is true; 0 if the system has
// no such clock.
func Clock(awake bool) time.Duration {
	clock := int32(unix.CLOCK_BOOTTIME)
	if awake {
		clock = unix.CLOCK_MONOTONIC
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
