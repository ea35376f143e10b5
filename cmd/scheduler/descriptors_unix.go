//go:build unix

package main

import (
	"math"
	"syscall"
)

// openFiles is the process's limit of open files; 0: unknown or none.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}
