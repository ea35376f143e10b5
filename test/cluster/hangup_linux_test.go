package cluster

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Signals that are caught here have their default action in started programs, also if the tests run under nohup.
func init() { signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) }

// SIGHUP loads the configuration again. It neither ends nor drains a replica.
func TestHangupLoadsTheConfiguration(t *testing.T) {
	t.Parallel()
	config := busyConfig(t)
	r, started := startReplica(t, config, "r1"), filepath.Join(filepath.Dir(config), "started")
	waitFor(t, started)
	for n := range 3 {
		r.Signal(t, syscall.SIGHUP)
		program.Within(t, 10*time.Second, "the log tells of it", func() bool { return strings.Count(r.Log(), `"msg":"configuration loaded again: no job`) == n+1 })
	}
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "\nwatch: false\n"...)
	if err := os.WriteFile(config, bytes.Replace(text, []byte("\njobs:"), []byte("\njobs:\n  another: {command: [echo]}"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Signal(t, syscall.SIGHUP)
	program.Within(t, 10*time.Second, "the log tells what has changed", func() bool {
		return strings.Contains(r.Log(), `"jobs":"1 added","pools":"as before","needs a restart":"watch"`)
	})
	if err := os.Remove(started); err != nil {
		t.Fatal(err)
	}
	waitFor(t, started) // one that drains starts nothing more
	r.Drain(t, 30*time.Second)
}

// A log whose reader is gone ends no replica.
func TestBrokenLogEndsNoReplica(t *testing.T) {
	t.Parallel()
	config := busyConfig(t)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, out, exec.Command(program.Build(t, scheduler), "serve", "-c", config, "--listen", "127.0.0.1:0"))
	_ = out.Close()
	waitFor(t, filepath.Join(filepath.Dir(config), "started"))
	_ = in.Close()
	for range 20 { // each is a line of the log
		if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if r.ended(500 * time.Millisecond) {
		t.Fatalf("it ended: %v", r.cmd.ProcessState)
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !r.ended(30*time.Second) || r.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("it drains with %v", r.cmd.ProcessState)
	}
}

// A closed terminal window drains the replica, which loses no work.
func TestClosedTerminalDrains(t *testing.T) {
	t.Parallel()
	config := busyConfig(t)
	folder := filepath.Dir(config)
	terminal, closeIt := pseudoTerminal(t)
	r := start(t, terminal, exec.Command(program.Build(t, scheduler), "serve", "-c", config, "--listen", "127.0.0.1:0"))
	_ = terminal.Close()
	waitFor(t, filepath.Join(folder, "started"))
	closeIt()
	if !r.ended(30*time.Second) || r.cmd.ProcessState.ExitCode() != 0 {
		t.Fatalf("it ends with %v", r.cmd.ProcessState)
	}
	if _, err := os.Stat(filepath.Join(folder, "done")); err != nil {
		t.Errorf("the work that was under way is lost: %v", err)
	}
}

// nohup means what it always does.
func TestClosedTerminalUnderNohup(t *testing.T) {
	t.Parallel()
	config := busyConfig(t)
	folder := filepath.Dir(config)
	terminal, closeIt := pseudoTerminal(t)
	r := start(t, terminal, exec.Command("nohup", program.Build(t, scheduler), "serve", "-c", config, "--listen", "127.0.0.1:0"))
	_ = terminal.Close()
	waitFor(t, filepath.Join(folder, "started"))
	closeIt()
	if r.ended(3 * time.Second) {
		t.Fatalf("it ended: %v", r.cmd.ProcessState)
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !r.ended(30*time.Second) || r.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("it drains with %v", r.cmd.ProcessState)
	}
}

// busyConfig is a configuration with a job that begins at once, says so by a file and, 2 s later, that it
// is done by another.
func busyConfig(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	config := filepath.Join(folder, "lockstep.yaml")
	text := fmt.Sprintf("version: 1\njobs:\n  busy:\n    schedule: \"* * * * * *\"\n    working_dir: %s\n    shell: 'touch started; sleep 2; touch done'\n", folder)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

func waitFor(t *testing.T, file string) {
	t.Helper()
	program.Within(t, 60*time.Second, file+" is there", func() bool { _, err := os.Stat(file); return err == nil })
}

// attached is a program whose standard streams are one file.
type attached struct {
	cmd  *exec.Cmd
	gone chan struct{}
}

// start starts a program in a session of its own, which a terminal belongs to if that is what f is.
func start(t *testing.T, f *os.File, cmd *exec.Cmd) *attached {
	t.Helper()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = f, f, f
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	cmd.Dir = t.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: err == nil}
	if err := servers.Start(cmd); err != nil {
		t.Fatal(err)
	}
	a := &attached{cmd: cmd, gone: make(chan struct{})}
	go func() {
		defer close(a.gone)
		_ = cmd.Wait() // its state is read
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-a.gone
	})
	return a
}

func (a *attached) ended(within time.Duration) bool {
	select {
	case <-a.gone:
		return true
	case <-time.After(within):
		return false
	}
}

// pseudoTerminal is a terminal, as a program sees it, and closes its window.
func pseudoTerminal(t *testing.T) (terminal *os.File, closeIt func()) {
	t.Helper()
	terminal, window := program.Terminal(t)
	read := make(chan struct{})
	go func() { // a window that shows nothing would hold up who writes
		defer close(read)
		for buf := make([]byte, 4096); ; {
			if _, err := window.Read(buf); err != nil {
				return
			}
		}
	}()
	closed := false
	closeIt = func() {
		if !closed {
			closed = true
			_ = window.Close()
			<-read
		}
	}
	t.Cleanup(closeIt)
	return terminal, closeIt
}
