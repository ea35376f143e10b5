//go:build unix

package program

import (
	"os"
	"syscall"
	"testing"
)

// Pause stops a process, or lets it go on.
func Pause(t testing.TB, p *os.Process, stop bool) {
	t.Helper()
	s := syscall.SIGCONT
	if stop {
		s = syscall.SIGSTOP
	}
	if err := p.Signal(s); err != nil {
		t.Fatal(err)
	}
}
