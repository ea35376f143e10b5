//go:build unix

package main

import (
	"math"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// closeInherited marks inherited descriptors close-on-exec, so that commands of jobs do not get, for example, a pipe
// that a wrapper left open. This process keeps them: a configuration may be /dev/fd/N. Go opens its own descriptors
// close-on-exec.
func closeInherited() {
	if closeOnExecFrom(firstInherited) {
		return
	}
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return // unknown: commands inherit them
	}
	for _, file := range open {
		if fd, err := strconv.Atoi(file.Name()); err == nil && fd >= firstInherited {
			syscall.CloseOnExec(fd)
		}
	}
}

// firstInherited is the first descriptor after the standard streams.
const firstInherited = 3

// inBackground reports whether a file is the controlling terminal of this process, and other processes are in its foreground.
func inBackground(f *os.File) bool {
	front, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && front != syscall.Getpgrp()
}

// passedOnOnly are the signals that a command gets, and that do not end a wait otherwise than usual.
var passedOnOnly = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT}

// terminalFlags open a terminal without blocking and without making it the controlling one.
const terminalFlags = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY

// openFiles is the process's limit of open files; 0: unknown or none.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}
