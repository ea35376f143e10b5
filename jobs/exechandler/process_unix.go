//go:build unix

package exechandler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	// linger is how long the output may stay open after the command ended by itself.
	linger = 2 * time.Second
	// margin is how much before the time by which everything must be gone the group is killed.
	margin = 100 * time.Millisecond
	// look is how often a group that was told to stop is looked at.
	look = 20 * time.Millisecond
)

func (h *Handler) run(ctx context.Context, program string, env []string, payload []byte, out io.Writer) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", program, err)
	}
	cmd := &exec.Cmd{
		Path: program, Args: h.argv, Env: env, Dir: h.command.Dir, Stdout: w, Stderr: w,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		WaitDelay:   linger, // bounds the writing of a payload that nobody reads
	}
	if len(payload) > 0 {
		cmd.Stdin = bytes.NewReader(payload)
	}
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return explain(program, h.command.Dir, err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		if _, err := io.Copy(out, r); err != nil {
			_, _ = io.Copy(io.Discard, r) // a full pipe would hold up the command
		}
	}()
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // what became of it is in ProcessState
	}()

	group := cmd.Process.Pid
	stopped := h.attend(ctx, group, exited)
	<-exited
	patience := linger
	if stopped != nil {
		patience = margin // nothing of the group is left
	}
	select {
	case <-copied:
	case <-time.After(patience):
		// Somebody who inherited the output is still there: in the group, or outside of it.
		_ = syscall.Kill(-group, syscall.SIGKILL)
		select {
		case <-copied:
		case <-time.After(margin):
		}
	}
	r.Close() // ends the copying if a process outside of the group holds the pipe
	<-copied
	return verdict(cmd.ProcessState, stopped)
}

// attend waits for the end of the command, or stops its group. It returns the cause of a stop.
func (h *Handler) attend(ctx context.Context, group int, exited <-chan struct{}) error {
	select {
	case <-exited:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-exited: // both happened; it ended by itself
		return nil
	default:
	}
	cause := context.Cause(ctx)
	grace := h.command.StopGrace
	var kill <-chan struct{}
	if stop := (*jobs.Stop)(nil); errors.As(cause, &stop) {
		kill = stop.Kill
		if !stop.KillBy.IsZero() {
			grace = min(grace, time.Until(stop.KillBy)-margin)
		}
	}
	_ = syscall.Kill(-group, syscall.SIGTERM)
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-deadline.C:
			_ = syscall.Kill(-group, syscall.SIGKILL)
			return cause
		case <-kill:
			_ = syscall.Kill(-group, syscall.SIGKILL)
			return cause
		case <-ticker.C:
			// The leader may be gone before the others are, who have the grace period too.
			if gone(group) {
				return cause
			}
		}
	}
}

// gone reports whether nobody is left in the group. macOS answers EPERM where only the dead are.
func gone(group int) bool {
	err := syscall.Kill(-group, 0)
	return errors.Is(err, syscall.ESRCH) || runtime.GOOS == "darwin" && errors.Is(err, syscall.EPERM)
}

// verdict says how a command ended; stopped is why it was told to.
func verdict(state *os.ProcessState, stopped error) error {
	ended := &jobs.ExitError{Code: state.ExitCode(), Text: fmt.Sprintf("exit code %d", state.ExitCode())}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		ended.Text = fmt.Sprintf("ended by a signal: %v", status.Signal())
		if status.Signal() == syscall.SIGKILL && stopped == nil {
			ended.Text += " (not by the scheduler; did the machine run out of memory?)"
		}
	}
	switch {
	case stopped != nil && state.Success():
		return fmt.Errorf("%w; the command then ended with exit code 0", stopped)
	case stopped != nil:
		return fmt.Errorf("%w: %w", stopped, ended)
	case state.Success():
		return nil
	}
	return ended
}
