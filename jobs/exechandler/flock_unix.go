//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package exechandler

import (
	"os"
	"syscall"
)

// flock locks a file for this process, if no other has it locked.
func flock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // a descriptor is an int
}
