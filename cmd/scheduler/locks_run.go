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
func (l lockedCommand) run(ctx context.Context, lease *locks.Lease) error {
	c := l.command
	c.Marks = []string{tokenVariable + "=" + strconv.FormatInt(int64(lease.Token()), 10), keyVariable + "=" + lease.Key()}
	c.Environ = append(without(c.Environ, tokenVariable, keyVariable), c.Marks...)
	left := time.Until(lease.Deadline())
	c.StopGrace = min(left/5, mostGrace)
	end := boottime.Now().Add(left)
	until := bound.New(end, c.StopGrace, end)
	working, stop := context.WithCancelCause(bound.With(ctx, until))
	ended, followed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(followed)
		follow(lease, until, ended, stop)
	}()
	code, err := c.Run(working)
	close(ended)
	<-followed
	stop(nil)

	lost := lease.Release(context.WithoutCancel(ctx))
	switch {
	case errors.Is(lost, locks.ErrLost) && err == nil:
		return exit{exitLost, fmt.Errorf("%w\nThe command ended by itself, with exit code %d, before or after the loss", lost, code)}
	case errors.Is(lost, locks.ErrLost) && errors.Is(err, abort.ErrLost):
		return exit{exitLost, fmt.Errorf("%w\nThe command was ended by its warden", lost)}
	case errors.Is(lost, locks.ErrLost):
		return exit{exitLost, fmt.Errorf("%w\nThe command was ended", lost)}
	case errors.Is(err, abort.ErrLost), errors.Is(err, abort.ErrNotStarted):
		return exit{exitLost, fmt.Errorf("lock %s lost: it was not renewed in time, or the command's warden was killed\nThe command was ended", lease.Key())}
	case err != nil:
		return notStarted(err)
	}
	return exit{code, nil}
}

// mostGrace is the longest time between SIGTERM and SIGKILL of a command that has lost its lock.
const mostGrace = 2 * time.Second

// follow keeps the time of a command equal to that of its lease, until it has ended:
//
//  1. wait for the end of the lease, or look after a short time
//  2. if the lease was renewed, move the deadline of the command, which the warden watches
//  3. at the end of the lease, stop the command
func follow(lease *locks.Lease, until *bound.Bound, ended <-chan struct{}, stop context.CancelCauseFunc) {
	was, read := lease.Deadline(), boottime.Now()
	look := time.NewTicker(min(max(time.Until(was)/20, 20*time.Millisecond), 500*time.Millisecond))
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
		asleep := read.Elapsed() - time.Since(read.Time()) // the deadline is read on a clock that stops meanwhile
		if now := lease.Deadline(); now != was {
			was, read = now, boottime.Now()
			until.Move(read.Add(now.Sub(read.Time()) - asleep))
		} else {
			read = boottime.Now()
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
	text := info.Owner
	if text == "" {
		text = "session " + info.Session
	}
	if info.Meta != "" {
		text += " (" + info.Meta + ")"
	}
	if !info.Since.IsZero() {
		text += " since " + a.when(info.Since)
	}
	if info.Remaining > 0 {
		text += fmt.Sprintf("; if it is dead, for %v more at most", info.Remaining.Round(100*time.Millisecond))
	}
	return text
}
