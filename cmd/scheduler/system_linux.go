package main

import (
	"math"

	"golang.org/x/sys/unix"
)

// closeOnExecFrom needs Linux 5.11, and neither /proc nor /dev; it reports success.
func closeOnExecFrom(first uint) bool {
	return unix.CloseRange(first, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil
}

// disableDump keeps commands of jobs, which run as the same user, from reading this process's environment and memory,
// where passwords are: /proc/PID/environ and ptrace need root then. Core dumps are off, too.
func disableDump() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) } // it fails for other values only
