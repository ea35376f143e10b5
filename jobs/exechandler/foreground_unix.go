//go:build unix

package exechandler

import (
	"context"
	"syscall"
)

// signalled is added to the number of a signal, in the exit code of a command that it ended, as shells do.
const signalled = 128

// Run starts the command, waits for its end, and returns its exit code; 128 and the number of the signal if one ended it.
// What it started in the background goes on then.
//
// Once ctx is done the command is ended with all its descendants, and err is the cause of ctx; a [jobs.Stop] among its causes
// may shorten the grace period. At the deadline of ctx (bound.Bound) the warden does the same, and err matches abort.ErrLost.
// Any other error says why the command could not be started.
func (f Foreground) Run(ctx context.Context) (code int, err error) {
	program, err := f.Find()
	if err != nil {
		return 0, err
	}
	c := command{
		Handler: &Handler{command: Command{StopGrace: f.StopGrace}, argv: f.Argv, env: f.Environ, path: f.path()},
		program: program, env: f.Environ, marks: f.Marks, in: f.Stdin, out: f.Stdout, errs: f.Stderr, plain: true,
	}
	p, err := c.start(ctx)
	if err != nil {
		return 0, err
	}
	attended, passed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(passed)
		f.pass(p, attended)
	}()
	status, stopped, err := p.attend(ctx)
	close(attended)
	<-passed
	switch {
	case err != nil:
		return 0, err
	case stopped != nil:
		return 0, stopped
	case status.Signaled():
		return signalled + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// pass passes signals on:
//
//  1. wait for one, or for the end of the command
//  2. send it to the group
func (f Foreground) pass(p running, ended <-chan struct{}) {
	for {
		select {
		case s := <-f.Signals:
			if number, ok := s.(syscall.Signal); ok {
				p.Signal(number)
			}
		case <-ended:
			return
		}
	}
}
