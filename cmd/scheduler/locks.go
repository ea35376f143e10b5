package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
)

func newLocksCommand(a *app) *cobra.Command {
	return group("locks", "Show and release locks, and run commands that hold one",
		newLocksListCommand(a), newLocksReleaseCommand(a), newLocksExecCommand(a))
}

func newLocksListCommand(a *app) *cobra.Command {
	var prefix string
	var all bool
	list := newListCommand(a, listing[wire.Lock]{
		short: "List who holds locks, and who waits for them",
		more: `: of the keys that begin with PREFIX, else of all but the scheduler's.
orders-db is user/orders-db, as it is to jobs, programs and 'locks exec'. The locks of the scheduler itself are below sys/; --all shows
both. A replica is asked, at --server: it lists the locks at the lock service of its own configuration.

PLACE is empty for a holder; 1 is the next one to get the lock, where the lock service has an order. LEFT is when the session of its process ends unless it is renewed: as long as a dead one may keep others out. MODE is shared, or
how many may hold the lock together.`,
		heading: "LOCK PLACE OWNER TOKEN SINCE LEFT MODE NOTE",
		fetch: func(c *client.Client, ctx context.Context, p wire.Page) (wire.List[wire.Lock], error) {
			return c.Locks(ctx, keyPrefix(prefix, all), p)
		},
		row: func(l wire.Lock) []string {
			left, _ := time.ParseDuration(l.Remaining) // "" is 0
			return []string{l.Key, number(l.Place), l.Owner, token(l.Token), a.ago(l.Since), duringLock(left), lockMode(l), l.Meta}
		},
	})
	list.Use = "list [PREFIX]"
	list.Flags().StringVar(&prefix, "prefix", "", "only keys that begin with `PREFIX`")
	list.Flags().BoolVar(&all, "all", false, "also those of the scheduler itself")
	inner := list.RunE
	list.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.asksReplica(cmd); err != nil {
			return err
		}
		if len(args) == 1 {
			if prefix != "" {
				return usagef("PREFIX is given twice")
			}
			prefix = args[0]
		}
		if prefix != "" && !syskeys.Printable(prefix, syskeys.MaxKey) {
			return usagef("PREFIX %s: no key begins so; keys are 1 to %d printable ASCII characters without blanks", clip.Quoted(prefix, 60), syskeys.MaxKey)
		}
		if all && prefix != "" {
			return usagef("--all has no PREFIX: give one of them")
		}
		return inner(cmd, nil)
	}
	return list
}

// keyPrefix is what the keys of a list begin with: as everywhere, user/ is put in front where it is missing.
func keyPrefix(prefix string, all bool) string {
	if all || strings.HasPrefix(prefix, syskeys.Prefix) || strings.HasPrefix(prefix, syskeys.User) {
		return prefix
	}
	return syskeys.User + prefix
}

// token formats a token; "" for none.
func token(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func duringLock(left time.Duration) string {
	if left <= 0 {
		return ""
	}
	return left.Round(100 * time.Millisecond).String()
}

func lockMode(l wire.Lock) string {
	if l.Limit > 0 {
		return fmt.Sprintf("limit %d", l.Limit)
	}
	return l.Mode
}

func newLocksReleaseCommand(a *app) *cobra.Command {
	var token int64
	cmd := newOneCommand(a, "release KEY --token TOKEN", "Take a lock from its holder",
		func(c *client.Client, ctx context.Context, key string) (wire.HeldLock, error) {
			if token < 1 {
				return wire.HeldLock{}, usagef("--token %d: must be the TOKEN that 'locks list' shows", token)
			}
			if _, err := syskeys.Full(key, true); err != nil {
				return wire.HeldLock{}, usageError{err}
			}
			return c.ReleaseLock(ctx, key, token)
		},
		func(w io.Writer, l wire.HeldLock) error {
			return textLine(fmt.Sprintf("%s is released; its holder learns of it with its next renewal, a third of lock.ttl later at most", l.Key))(w)
		})
	cmd.Long = `Take a lock from a holder that is known to be stuck. The next one may get the lock at once, while this holder learns of the
loss with its next renewal only: 'locks exec' ends its command then. It needs the role admin, and is in the audit.

The token says which holder is meant: one that got the lock since has a larger one, and keeps it.`
	cmd.Example = "  scheduler locks list orders-db\n  scheduler locks release orders-db --token 1795635849976001"
	cmd.Flags().Int64Var(&token, "token", 0, "the `TOKEN` of the holder, as 'locks list' shows it")
	_ = cmd.MarkFlagRequired("token")
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.asksReplica(cmd); err != nil {
			return err
		}
		return inner(cmd, args)
	}
	return cmd
}

// asksReplica refuses -c of a command that asks a replica: its file may name another lock service than the one that is shown.
func (a *app) asksReplica(cmd *cobra.Command) error {
	if cmd.Flags().Changed("config") {
		return usagef("-c has no effect: a replica is asked, at --server URL, else $LOCKSTEP_SERVER, else %s; leave -c out, and name a replica of that configuration", defaultServer)
	}
	return nil
}
