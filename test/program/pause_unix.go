//go:build unix

package program

import (
	"syscall"
	"testing"
)

// Pause stops the process, or lets it go on.
func (p *Process) Pause(t testing.TB, stop bool) {
	t.Helper()
	if stop {
		p.Signal(t, syscall.SIGSTOP)
	} else {
		p.Signal(t, syscall.SIGCONT)
	}
}
