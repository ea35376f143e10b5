//go:build unix

package main

import (
	"os"
	"strconv"
	"syscall"
)

// keepToOurselves keeps commands of jobs, and the helper process that runs them, from files that this process was started
// with and that are meant for it alone at most, as a pipe that a wrapper left open. This process keeps them: /dev/fd/N
// can be read. What Go opens itself is closed at an exec anyway.
func keepToOurselves() {
	if closeOnExecFrom(firstInherited) {
		return
	}
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return // where a system does not say what is open, commands get it as before
	}
	for _, file := range open {
		if fd, err := strconv.Atoi(file.Name()); err == nil && fd >= firstInherited {
			syscall.CloseOnExec(fd)
		}
	}
}

// firstInherited is the first descriptor behind those of input, output and errors, which commands get others in place of.
const firstInherited = 3
