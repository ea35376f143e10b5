package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/locks"
)

// Exit codes of "locks exec", beside those of the command.
const (
	exitBusy      = 75  // EX_TEMPFAIL: another one holds the key
	exitLost      = 76  // the lock was lost while the command ran
	exitNotRun    = 126 // the command cannot be started, as of shells
	exitNotFound  = 127 // there is no such command, as of shells
	exitSignalled = 128 // and the number of a signal
)

const locksExecHelp = `Run CMD while this process holds the lock KEY at the lock service of the configuration, and release it when CMD has ended.
A job that names the same key in its locks, and a Go program with the same service and namespace, use the same lock.

CMD has this process's streams, folder and environment, and LOCKSTEP_FENCING_TOKEN and LOCKSTEP_LOCK (the key). The token is
larger for every later holder of the key: what CMD writes to can refuse older ones. CMD runs in a session of its own, without
/dev/tty. Signals that this process gets are sent to its process group. What CMD leaves running in the background when it
ends goes on, without the lock.

Without --wait the lock is tried once. With it, this process waits its turn: those who wait are served in the order in which
they came, where the lock service has an order ('scheduler doctor' tells), and a try does not overtake them.

Holders with --shared hold the key together; so do those with the same --limit, as many as it says. All others exclude each
other: also two with different limits.

If the lock is lost, CMD and all that it started are ended: at the latest when it could be granted to another one, also if
this process is frozen or killed (on Linux; not in mode row of MySQL, where the server frees the locks of a connection that
it closes). 'scheduler locks release' takes it away; that is noticed at the next renewal, a
third of lock.ttl later at most.

Exit codes: that of CMD; 128 and the number of the signal that ended it, or this process's wait
  75    busy: another one holds the key, or not its turn within --wait
  76    the lock was lost, and CMD was ended
  126   CMD cannot be started; 127: it was not found; the lock was not used
  1     the lock service does not grant anything now; 2: wrong usage or configuration`

// lockedCommand is a command that runs while a key is held.
type lockedCommand struct {
	request locks.Request
	wait    time.Duration // 0: one try
	forever bool          // wait without a limit
	command exechandler.Foreground
}

func newLocksExecCommand(a *app) *cobra.Command {
	var (
		wait   waitFlag
		shared bool
		limit  int
		name   string
	)
	cmd := &cobra.Command{
		Use:                   "exec KEY -- CMD…",
		Short:                 "Run a command while holding a lock",
		Long:                  locksExecHelp,
		Example:               "  scheduler locks exec orders-db --wait 30s -- ./backup.sh --full\n  scheduler locks exec uplink --limit 3 -- rsync -a data/ host:data/",
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			l := lockedCommand{request: locks.Request{Key: args[0], Limit: limit}, wait: wait.limit, forever: wait.forever}
			switch {
			case limit < 1 || limit > locks.MaxLimit:
				return usagef("--limit %d: must be 1 to %d", limit, locks.MaxLimit)
			case shared && cmd.Flags().Changed("limit"):
				return usagef("--shared and --limit exclude each other: shared holders have no limit")
			case shared:
				l.request.Mode = locks.Shared
			}
			l.command.Argv = args[1:]
			if l.request.Meta = name; name == "" {
				l.request.Meta = strings.Join(l.command.Argv, " ")
			}
			l.request.Meta = clip.Text(l.request.Meta, maxNote)
			if err := a.attach(&l.command); err != nil {
				return err
			}
			c, err := a.readConfig() // its warnings concern jobs
			if err == nil {
				err = hasName(c)
			}
			if err != nil {
				return err
			}
			return a.runLocked(cmd.Context(), c, l)
		},
	}
	cmd.Flags().Var(&wait, "wait", "wait at most `TIME` for the lock, as 30s; forever: without a limit; 0s: try once")
	cmd.Flags().BoolVar(&shared, "shared", false, "hold the key together with others that share it")
	cmd.Flags().IntVar(&limit, "limit", 1, "up to `N` hold the key together, all with the same N")
	cmd.Flags().StringVar(&name, "name", "", "`TEXT` that 'locks list' shows as the note, in place of the command and its arguments")
	return cmd
}

// hasName refuses a configuration whose keys no other machine would have.
func hasName(c *config.Config) error {
	if c.Set.Name != "" || c.LockInStore() || c.Store.Driver != config.SQLite {
		return nil
	}
	return usagef("the configuration has no name, so its locks would be those of the file %s alone, and no other machine would be excluded; "+
		"write the same name: in the configuration of all", c.Store.DSN)
}

// maxNote is how long a note may be, in bytes.
const maxNote = 512

// waitFlag is the value of --wait.
type waitFlag struct {
	limit   time.Duration
	forever bool
}

func (f *waitFlag) String() string {
	switch {
	case f.forever:
		return "forever"
	case f.limit == 0:
		return ""
	}
	return f.limit.String()
}

func (f *waitFlag) Type() string { return "time" }

func (f *waitFlag) Set(text string) error {
	if text == "forever" {
		*f = waitFlag{forever: true}
		return nil
	}
	d, err := duration.Parse(text)
	if err != nil {
		return fmt.Errorf("must be forever, or a time as 30s or 1h30m: %w", err)
	}
	*f = waitFlag{limit: d}
	return nil
}

// runLocked runs a command while its key is held.
//
//  1. find the program: a wrong name must not wait for the lock
//  2. open the lock service
//  3. acquire the key: one try, or its turn
//  4. run the command, until it ends or the lock is lost
//  5. release the key
func (a *app) runLocked(ctx context.Context, c *config.Config, l lockedCommand) (err error) {
	if _, err := l.command.Find(); err != nil {
		return notStarted(err)
	}
	signals := make(chan os.Signal, 16)
	receive(signals, passedOn)
	defer signal.Stop(signals)
	closeInherited()
	host, _ := os.Hostname()
	p, err := openForUsers(ctx, c, locks.Options{Owner: fmt.Sprintf("%s/%d", host, os.Getpid())})
	if err != nil {
		return err
	}
	defer func() {
		if closing := p.close(ctx); closing != nil {
			fmt.Fprintf(a.stderr, "warning: the lock is free after lock.ttl, %v, at the latest: %v\n", c.Lock.TTL, closing)
		}
	}()
	lease, err := l.acquire(ctx, p.users, signals)
	if err != nil {
		return a.notGranted(ctx, c, p.users, l, err)
	}
	receive(signals, passedOnOnly)
	l.command.Signals = signals
	return l.run(ctx, lease)
}

// receive makes signals arrive, but those that this process ignores, as SIGHUP under nohup.
func receive(signals chan os.Signal, all []os.Signal) {
	for _, s := range all {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
}

// passedOn are the signals that end a wait, and that the command gets; it also gets those of passedOnOnly.
var passedOn = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// openForUsers opens the lock service of the keys of users; the store too, where the locks or the namespace are in it.
func openForUsers(ctx context.Context, c *config.Config, o locks.Options) (_ *parts, err error) {
	p := &parts{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close(ctx))
		}
	}()
	if c.Set.Name == "" || c.LockInStore() {
		if p.store, err = openStore(ctx, c.Store); err != nil {
			return nil, err
		}
		p.closers = append(p.closers, func(context.Context) error { return p.store.Close() })
		if err = p.store.CheckSchema(ctx); err != nil && c.Store.Migrate == "auto" {
			err = p.store.Migrate(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	return p, p.openUserLocks(ctx, c, o)
}

// interrupted is the end of a wait by a signal.
type interrupted struct{ syscall.Signal }

func (i interrupted) Error() string { return "interrupted: " + i.Signal.String() }

// acquire gets the lease: by one try, or in turn. A signal ends the wait.
func (l lockedCommand) acquire(ctx context.Context, locker *locks.Locker, signals <-chan os.Signal) (*locks.Lease, error) {
	if l.wait == 0 && !l.forever {
		attempts, err := locker.TryAcquire(ctx, l.request)
		if err != nil {
			return nil, err
		}
		return attempts[0].Lease, attempts[0].Err
	}
	waiting, end := context.WithCancelCause(ctx)
	defer end(nil)
	if !l.forever {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(waiting, l.wait)
		defer cancel()
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal)
			end(interrupted{number})
		case <-waiting.Done():
		}
	}()
	leases, err := locker.Acquire(waiting, l.request)
	end(nil)
	<-watched
	if by, is := errors.AsType[interrupted](context.Cause(waiting)); is {
		if err == nil {
			_ = leases[0].Release(context.WithoutCancel(ctx)) // else Close does
		}
		return nil, by
	}
	if err != nil {
		return nil, err
	}
	return leases[0], nil
}

// notGranted turns the error of acquire into an exit code, and says who holds the key.
func (a *app) notGranted(ctx context.Context, c *config.Config, locker *locks.Locker, l lockedCommand, err error) error {
	by, ended := errors.AsType[interrupted](err)
	switch {
	case ended:
		return exit{exitSignalled + int(by.Signal), nil}
	case errors.Is(err, locks.ErrUnavailable):
		if _, diagnosis := unreachable(ctx, c.Lock, err); diagnosis != nil {
			return fmt.Errorf("%w: %w", diagnosis, err)
		}
		return fmt.Errorf("%w\nSee that the lock service runs, and that its address and account are right; 'scheduler doctor' examines it", err)
	case errors.Is(err, locks.ErrRecovering):
		return fmt.Errorf("%w\nIt grants again after lock.ttl, %v; a --wait that is longer waits for that", err, c.Lock.TTL)
	case errors.Is(err, locks.ErrUnknown):
		return err
	case errors.Is(err, locks.ErrBusy):
		waited := ""
		if l.wait > 0 {
			waited = fmt.Sprintf("not its turn within %v: ", l.wait)
		}
		if holder := a.holders(ctx, locker, l.request.Key); holder != "" {
			return exit{exitBusy, fmt.Errorf("%s%s", waited, holder)}
		}
		return exit{exitBusy, fmt.Errorf("%s%w", waited, err)}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return exit{exitBusy, err}
	}
	return usageError{err} // the request is refused
}
