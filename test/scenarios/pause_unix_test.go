//go:build unix

package scenarios

import (
	"os"
	"syscall"
	"testing"
)

// pause stops a process, or lets it go on.
func pause(t *testing.T, p *os.Process, stop bool) {
	t.Helper()
	signal := syscall.SIGCONT
	if stop {
		signal = syscall.SIGSTOP
	}
	if err := p.Signal(signal); err != nil {
		t.Fatal(err)
	}
}
