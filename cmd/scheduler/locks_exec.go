package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
/dev/tty; if this process is in the background of its terminal, CMD has no input. Signals that this process gets are sent to
CMD's process group. What CMD leaves running in the background when it ends goes on, without the lock.

If live replicas of the store of this configuration use another lock service or namespace, CMD is not run.

Without --wait the lock is tried once. With it, this process waits its turn: those who wait are served in the order in which
they came, where the lock service has an order ('scheduler doctor' tells), and a try does not overtake them. A lock service
that cannot be reached is tried again meanwhile.

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
  1     the lock service, or a store that the lock needs, cannot be reached or grants nothing now
  2     wrong usage or configuration`

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
			if l.command.Argv = args[1:]; l.command.Argv[0] == "" {
				return usagef("CMD is empty; write 'scheduler locks exec KEY -- CMD…'")
			}
			if err := inOneLine(name); err != nil {
				return usagef("--name %q: %w", name, err)
			}
			if l.request.Meta = name; !cmd.Flags().Changed("name") {
				l.request.Meta = strings.Join(l.command.Argv, " ")
			}
			l.request.Meta = clip.Text(l.request.Meta, maxNote)
			if err := a.attach(&l.command); err != nil {
				return err
			}
			c, err := a.readConfig() // its warnings concern jobs
			if path, _ := a.configPath(); err != nil && path != "" {
				if _, missing := os.Stat(path); errors.Is(missing, fs.ErrNotExist) {
					return usagef("%w: name the configuration with -c FILE or LOCKSTEP_CONFIG; 'scheduler init' writes one to start with", err)
				}
			}
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
	cmd.Flags().StringVar(&name, "name", "", "`TEXT` that 'locks list' and busy messages show, in place of the command with its arguments; \"\": nothing")
	_ = cmd.Flags().SetAnnotation("name", mayBeEmpty, []string{})
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

// inOneLine refuses a text that would break a line, or control a terminal.
func inOneLine(text string) error {
	if show(text) != text || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
		return errors.New("must be text in one line, without control characters")
	}
	return nil
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
//  2. open the lock service, compare it with that of live replicas, and acquire the key: one try, or its turn
//  3. run the command, until it ends or the lock is lost
//  4. release the key
func (a *app) runLocked(ctx context.Context, c *config.Config, l lockedCommand) error {
	if _, err := l.command.Find(); err != nil {
		return notStarted(err)
	}
	signals := make(chan os.Signal, 16)
	receive(signals, passedOn)
	defer signal.Stop(signals)
	closeInherited()
	waiting, end := begin(ctx, signals)
	p, lease, err := a.acquire(waiting, c, l)
	by, ended := errors.AsType[interrupted](context.Cause(waiting))
	end()
	if p != nil {
		defer func() {
			if closing := p.close(ctx); closing != nil {
				fmt.Fprintf(a.stderr, "warning: the lock is free after lock.ttl, %v, at the latest: %v\n", c.Lock.TTL, closing)
			}
		}()
	}
	switch {
	case ended:
		if lease != nil {
			_ = lease.Release(context.WithoutCancel(ctx)) // else close does
		}
		return exit{exitSignalled + int(by.Signal), nil}
	case err != nil:
		return err
	}
	receive(signals, passedOnOnly)
	l.command.Signals = signals
	return l.run(ctx, lease, p)
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
