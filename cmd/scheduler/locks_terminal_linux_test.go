package main

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/await"
	programs "github.com/lockstep-scheduler/lockstep/test/program"
)

// typed is a terminal with a shell, as of a person who types.
type typed struct {
	window *os.File
	mu     sync.Mutex
	shown  strings.Builder
}

func (d *typed) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.ReplaceAll(d.shown.String(), "\r\n", "\n")
}

func (d *typed) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shown.Write(p)
}

// shows waits until the terminal shows a text.
func (d *typed) shows(t *testing.T, text string) {
	t.Helper()
	await.Until(t, "the terminal shows "+text, func() bool { return strings.Contains(d.text(), text) })
}

func (d *typed) types(t *testing.T, line string) {
	t.Helper()
	if _, err := d.window.WriteString(line + "\n"); err != nil {
		t.Fatal(err)
	}
}

// onTerminal starts a shell with job control on a terminal of its own, without echo.
func (s *shell) onTerminal(t *testing.T, script string) *typed {
	t.Helper()
	terminal, window := programs.Terminal(t)
	d := &typed{window: window}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "set -m; stty -echo; "+script)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "SCHEDULER="+s.binary)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for buf := make([]byte, 4096); ; {
			n, err := window.Read(buf)
			_, _ = d.Write(buf[:n])
			if err != nil { // EIO: all have closed it
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		window.Close()
		<-read
		if t.Failed() {
			t.Logf("the terminal shows\n%s", d.text())
		}
	})
	return d
}

// A command reads the terminal if its caller is in the foreground. In the background it takes nothing from who types: it reads the end of its input.
func TestExecOnATerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t, inStore(t))
	d := s.onTerminal(t, `"$SCHEDULER" locks exec orders -- sh -c 'echo "asks"; read line; echo "command has $line"'`)
	d.shows(t, "asks\n")
	d.types(t, "typed")
	d.shows(t, "command has typed\n")

	d = s.onTerminal(t, `"$SCHEDULER" locks exec orders -- sh -c 'echo born; read line; echo "command has ${line:-nothing}"; until [ -e end ]; do sleep 0.05; done' & until [ -e go ]; do sleep 0.05; done; read line; echo "shell has $line"; touch end; wait; echo over`)
	d.shows(t, "born\n")
	d.shows(t, "command has nothing\n")
	if err := os.WriteFile(s.dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.types(t, "typed")
	d.shows(t, "shell has typed\n")
	d.shows(t, "over\n")
}
