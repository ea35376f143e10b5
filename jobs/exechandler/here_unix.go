//go:build unix

package exechandler

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// look is the interval at which a stopped group is polled.
const look = 20 * time.Millisecond

// child is a command that this process has started itself. Once its context is done, stop ends its process group:
//
//  1. SIGTERM
//  2. look whether the group is empty, each look
//  3. SIGKILL, when the grace period is over or the attempt is told to end at once
type child struct {
	*Handler
	limits *limited
	cmd    *exec.Cmd
	exited chan struct{}
}

func (c *command) startHere() (running, error) {
	cmd := &exec.Cmd{
		Path: c.program, Args: c.argv, Env: c.env, Dir: c.command.Dir, Stdout: c.out, Stderr: c.out,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if c.errs != nil {
		cmd.Stderr = c.errs
	}
	if c.in != nil {
		cmd.Stdin = c.in
	}
	c.limits.attributes(cmd.SysProcAttr)
	if err := c.limits.nicer(cmd.Start, func() int { return cmd.Process.Pid }); err != nil {
		return nil, explain(c.program, c.command.Dir, err)
	}
	p := &child{c.Handler, c.limits, cmd, make(chan struct{})}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // the result is in ProcessState
	}()
	return p, nil
}

func (p *child) Group() int { return p.cmd.Process.Pid }

func (p *child) Signal(s syscall.Signal) {
	select {
	case <-p.exited: // the number of its group may be used again
	default:
		_ = syscall.Kill(-p.Group(), s)
	}
}

func (p *child) attend(ctx context.Context) (syscall.WaitStatus, error, error) {
	stopped := p.stop(ctx)
	<-p.exited
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus) // it is one on every Unix
	return status, stopped, nil
}

// stop waits for the end of the command, or stops its group. It returns the cause of a stop.
func (p *child) stop(ctx context.Context) error {
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-p.exited: // both happened; it ended by itself
		return nil
	default:
	}
	cause := context.Cause(ctx)
	grace, kill := p.grace(cause)
	group := p.Group()
	_ = syscall.Kill(-group, syscall.SIGTERM)
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-deadline.C:
			_ = syscall.Kill(-group, syscall.SIGKILL)
			p.limits.kill()
			return cause
		case <-kill:
			_ = syscall.Kill(-group, syscall.SIGKILL)
			p.limits.kill()
			return cause
		case <-ticker.C:
			// The leader may end before the others, which have the grace period too.
			if gone(group) {
				return cause
			}
		}
	}
}

// grace is the grace period of the command, and what ends it sooner.
func (h *Handler) grace(cause error) (grace time.Duration, kill <-chan struct{}) {
	grace = h.command.StopGrace
	if stop := (*jobs.Stop)(nil); errors.As(cause, &stop) {
		kill = stop.Kill
		if !stop.KillBy.IsZero() {
			grace = min(grace, time.Until(stop.KillBy)-margin)
		}
	}
	return grace, kill
}

// gone reports whether the group is empty. macOS answers EPERM if it has only zombies.
func gone(group int) bool {
	err := syscall.Kill(-group, 0)
	return errors.Is(err, syscall.ESRCH) || runtime.GOOS == "darwin" && errors.Is(err, syscall.EPERM)
}
