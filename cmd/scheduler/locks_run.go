package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/locks"
)

// attach gives a command the streams and the environment of this process.
func (a *app) attach(c *exechandler.Foreground) error {
	stdin, in := a.stdin.(*os.File)
	stdout, out := asFile(a.stdout)
	stderr, errs := asFile(a.stderr)
	if !in || !out || !errs {
		return errors.New("the command needs the streams of a process")
	}
	c.Stdin, c.Stdout, c.Stderr, c.Environ = stdin, stdout, stderr, a.environ
	return nil
}

// asFile is the file that a stream of the app writes to.
func asFile(w io.Writer) (*os.File, bool) {
	if escaped, ok := w.(*visible); ok {
		w = escaped.w
	}
	f, ok := w.(*os.File)
	return f, ok
}

// The variables of the command.
const (
	tokenVariable = "LOCKSTEP_FENCING_TOKEN"
	keyVariable   = "LOCKSTEP_LOCK"
)

// run runs the command until it ends or the lease is lost, and releases the lease.
func (l lockedCommand) run(ctx context.Context, lease *locks.Lease, p *parts) error {
	c := l.command
	if inBackground(c.Stdin) { // else it would take lines from the shell: it is in another session, so SIGTTIN does not stop it
		c.Stdin = nil
	}
	c.Marks = []string{tokenVariable + "=" + strconv.FormatInt(int64(lease.Token()), 10), keyVariable + "=" + lease.Key()}
	c.Environ = append(without(c.Environ, tokenVariable, keyVariable), c.Marks...)
	now := boottime.Now() // read first: a process that is frozen in between must not gain time
	left := lease.Left()
	c.StopGrace = min(left/5, mostGrace)
	end := now.Add(left)
	until := bound.New(end, c.StopGrace, end)
	working, stop := context.WithCancelCause(bound.With(ctx, until))
	ended, followed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(followed)
		follow(lease, p.holds, until, ended, stop)
	}()
	code, err := c.Run(working)
	close(ended)
	<-followed
	stop(nil)

	spare := lease.Left() - c.StopGrace
	away := p.users.State().Err
	lost := lease.Release(context.WithoutCancel(ctx))
	why := error(nil)
	switch {
	case errors.Is(lost, locks.ErrLost):
		why = lost
	case errors.Is(err, locks.ErrLost), errors.Is(err, locks.ErrForced):
		why = err
	case errors.Is(err, abort.ErrLost) && spare > 2*mostPause:
		why = fmt.Errorf("%w: %s: the helper process that ends the command was killed", locks.ErrLost, lease.Key())
	case errors.Is(err, abort.ErrLost), errors.Is(err, abort.ErrNotStarted):
		why = fmt.Errorf("%w: %s: it was not renewed in time", locks.ErrLost, lease.Key())
	case err != nil:
		return notStarted(err)
	default:
		return exit{code, nil}
	}
	if away != nil {
		why = fmt.Errorf("%w: %w", why, away)
	}
	if err == nil {
		return exit{exitLost, fmt.Errorf("%w\nThe command ended by itself, with exit code %d, before or after the loss; exit code %d", why, code, exitLost)}
	}
	return exit{exitLost, fmt.Errorf("%w\nThe command was ended, with all that it had started; exit code %d", why, exitLost)}
}

// mostPause is the longest time between two looks at the lease.
const mostPause = 500 * time.Millisecond

// mostGrace is the longest time between SIGTERM and SIGKILL of a command that has lost its lock.
const mostGrace = 2 * time.Second

// follow keeps the time of a command equal to that of its lease, until it has ended:
//
//  1. wait for the end of the lease, or look after a short time
//  2. if the lease was renewed, move the deadline of the command, which the warden watches
//  3. at the end of the lease, or if the file of the locks was deleted, stop the command
func follow(lease *locks.Lease, holds func() error, until *bound.Bound, ended <-chan struct{}, stop context.CancelCauseFunc) {
	was := lease.Deadline()
	look := time.NewTicker(min(max(lease.Left()/20, 20*time.Millisecond), mostPause))
	defer look.Stop()
	for {
		select {
		case <-ended:
			return
		case <-lease.Context().Done():
			stop(lostLock(context.Cause(lease.Context())))
			return
		case <-look.C:
		}
		if err := holds(); err != nil {
			stop(lostLock(fmt.Errorf("%w: %s: %w", locks.ErrLost, lease.Key(), err)))
			return
		}
		if deadline := lease.Deadline(); deadline != was {
			was = deadline
			now := boottime.Now()
			until.Move(now.Add(lease.Left()))
		}
	}
}

// lostLock is the cause of a stop. One that was lost may be granted to another already: the command is killed at once. One
// that was released by force leaves it a grace period.
func lostLock(cause error) error {
	if errors.Is(cause, locks.ErrForced) {
		return cause
	}
	now := make(chan struct{})
	close(now)
	return fmt.Errorf("%w: %w", cause, &jobs.Stop{Reason: "killed", Kill: now})
}

// without is an environment without some variables.
func without(environ []string, names ...string) (rest []string) {
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); !slices.Contains(names, name) {
			rest = append(rest, entry)
		}
	}
	return rest
}

// notStarted is the exit code of a command that cannot be started.
func notStarted(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return exit{exitNotFound, err}
	}
	return exit{exitNotRun, err}
}

// holders says who holds a key; "" if none is known.
func (a *app) holders(ctx context.Context, locker *locks.Locker, key string) string {
	key, err := syskeys.Full(key, false)
	if err != nil {
		return ""
	}
	var all []string
	for info, err := range locker.Inspect(ctx, key) {
		if err != nil || info.Key != key {
			break // its own key is the first with it as a prefix
		}
		if info.Place == 0 {
			all = append(all, a.holder(info))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return key + " is held by " + strings.Join(all, ", and by ")
}

// holder describes one: its name, what it does, since when, and how long at most if it is dead.
func (a *app) holder(info locks.Info) string {
	text := cellText(info.Owner)
	if info.Owner == "" {
		text = "session " + info.Session
	}
	if info.Meta != "" {
		text += " (" + cellText(info.Meta) + ")"
	}
	if !info.Since.IsZero() {
		text += " since " + a.when(info.Since)
	}
	if info.Remaining > 0 {
		text += fmt.Sprintf("; if it is dead, for %v more at most", info.Remaining.Round(100*time.Millisecond))
	}
	return text
}
