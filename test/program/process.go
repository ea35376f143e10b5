package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Process is a program that a test runs.
type Process struct {
	// Cmd is what was started. Its ProcessState may be read once the process has ended.
	Cmd  *exec.Cmd
	file string // of its output
	gone chan struct{}
}

// Start starts cmd, with a log in the place of both outputs. At the end of the test it is killed if
// it still runs, and the end of its log is shown if the test failed.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, file: filepath.Join(t.TempDir(), "log"), gone: make(chan struct{})}
	log, err := os.Create(p.file)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := servers.Start(cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // its state is read where it matters
		close(p.gone)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.gone
		if t.Failed() {
			text := p.Log()
			t.Logf("end of the log of %v:\n%s", cmd.Args, text[max(0, len(text)-8000):])
		}
	})
	return p
}

// Log is what the process wrote so far.
func (p *Process) Log() string {
	text, _ := os.ReadFile(p.file) // Start has created it
	return string(text)
}

// Ended reports whether the process ends within limit.
func (p *Process) Ended(limit time.Duration) bool {
	select {
	case <-p.gone:
		return true
	case <-time.After(limit):
		return false
	}
}

// Exit waits for the end of the process and returns its exit code, -1 after a signal. The test
// fails at once if that takes longer than limit.
func (p *Process) Exit(t testing.TB, limit time.Duration) int {
	t.Helper()
	if !p.Ended(limit) {
		t.Fatalf("not within %v: %v ends", limit, p.Cmd.Args)
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Signal sends the process a signal. SIGTERM asks a replica to drain.
func (p *Process) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Pause stops the process, or lets it go on.
func (p *Process) Pause(t testing.TB, stop bool) {
	t.Helper()
	Pause(t, p.Cmd.Process, stop)
}

// Kill ends the process with SIGKILL.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGKILL)
	<-p.gone
}

// Drain drains a replica, and checks that it ends within limit with exit code 0.
func (p *Process) Drain(t testing.TB, limit time.Duration) {
	t.Helper()
	p.Signal(t, syscall.SIGTERM)
	p.WantDrained(t, limit)
}

// WantDrained checks that a draining replica ends within limit with exit code 0.
func (p *Process) WantDrained(t testing.TB, limit time.Duration) {
	t.Helper()
	if code := p.Exit(t, limit); code != 0 {
		t.Errorf("%v drained with exit code %d", p.Cmd.Args, code)
	}
}
