//go:build unix

package exechandler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	// linger is how long the output may stay open after the command has ended by itself.
	linger = 2 * time.Second
	// margin is how long before the deadline the group is killed.
	margin = 100 * time.Millisecond
)

// command is one run of a handler's command.
type command struct {
	*Handler
	program string
	env     []string // all of it
	marks   []string // variables of env that are unique to the attempt
	in, out *os.File // what it reads, nil for nothing, and writes
	errs    *os.File // what it writes errors to; nil: out
	limits  *limited
	plain   bool // what its warden logs is text for people
}

// running is a command that was started.
type running interface {
	// Group is its process group.
	Group() int
	// Signal sends a signal to its group, unless it has ended.
	Signal(s syscall.Signal)
	// attend waits for the end of the command, or stops it once ctx is done. It returns the cause of a stop,
	// and an error if the end of the command is unknown.
	attend(ctx context.Context) (status syscall.WaitStatus, stopped, err error)
}

func (h *Handler) run(ctx context.Context, program string, env, marks []string, t jobs.Task, out io.Writer) error {
	reports, payload := reportsOf(t), t.Payload
	defer reports.remove()
	c := command{Handler: h, program: program, env: append(env, reports.variables()...), marks: marks}
	s, err := openStreams()
	if err != nil {
		return explain(program, h.command.Dir, err)
	}
	defer s.close()
	c.out, c.errs = s.pipes[0].write, s.pipes[1].write
	var input *os.File // the other end of what it reads
	if len(payload) > 0 {
		if c.in, input, err = os.Pipe(); err != nil {
			return explain(program, h.command.Dir, err)
		}
		defer c.in.Close()
		defer input.Close()
	}
	if c.limits, err = h.command.Limits.limit(); err != nil {
		if full := noRoom(program, err); full != nil {
			return full
		}
		return err
	}
	killed := false // at its limit
	defer func() { c.limits.release(killed) }()
	p, err := c.start(ctx)
	if err != nil {
		return err
	}
	s.started()
	if c.in != nil {
		c.in.Close()
		defer write(input, payload)()
	}
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		s.pass(out)
	}()

	stopWatching := reports.watch()
	status, stopped, err := p.attend(ctx)
	stopWatching()
	patience := linger
	if stopped != nil || err != nil {
		patience = margin // the group is empty
	}
	select {
	case <-passed:
	case <-time.After(patience):
		// A process that inherited the output is still there: in the group, or outside of it.
		_ = syscall.Kill(-p.Group(), syscall.SIGKILL)
		select {
		case <-passed:
		case <-time.After(margin):
		}
	}
	s.stop() // a process outside of the group may hold the pipes
	<-passed
	if err != nil {
		return err
	}
	killed = c.limits.finish(out, status)
	err = verdict(status, stopped, s.last())
	if exit := (*jobs.ExitError)(nil); killed && stopped == nil && errors.As(err, &exit) {
		exit.OutOfMemory = true
		exit.Text = "killed at its memory limit of " + sizeText(c.limits.Memory) + behind(s.last())
	}
	reports.finish(out, err != nil)
	return err
}

// write writes the payload beside the command, which need not read it.
func write(w *os.File, payload []byte) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = w.Write(payload)
		w.Close()
	}()
	return func() {
		w.Close()
		<-done
	}
}

// start starts the command, with the warden if there is one.
func (c *command) start(ctx context.Context) (running, error) {
	if b := bound.Of(ctx); b != nil && (b.StartLeft() <= 0 || b.Left() <= 0) {
		return nil, fmt.Errorf("%w: this replica's session could not be renewed before the command was started", abort.ErrNotStarted)
	}
	if wardens.Load() {
		return c.startWarded(ctx)
	}
	return c.startHere()
}

// behind is the line behind a text, if there is one.
func behind(line string) string {
	if line == "" {
		return ""
	}
	return ": " + line
}

// verdict is the result of a command; stopped is the cause of a stop, and said the line which says why a command that ended by itself failed,
// see streams.last.
func verdict(status syscall.WaitStatus, stopped error, said string) error {
	ended := &jobs.ExitError{Code: status.ExitStatus(), Text: fmt.Sprintf("exit code %d", status.ExitStatus())}
	if status.Signaled() {
		ended.Signal = int(status.Signal())
		ended.Text = fmt.Sprintf("ended by a signal: %v", status.Signal())
		if status.Signal() == syscall.SIGKILL && stopped == nil {
			ended.Text += " (not by the scheduler; did the machine run out of memory?)"
		}
	}
	if stopped == nil {
		ended.Text += behind(said)
	}
	success := status.Exited() && status.ExitStatus() == 0
	switch {
	case stopped != nil && success:
		return fmt.Errorf("%w; the command then ended with exit code 0", stopped)
	case stopped != nil:
		return fmt.Errorf("%w: %w", stopped, ended)
	case success:
		return nil
	}
	return ended
}
