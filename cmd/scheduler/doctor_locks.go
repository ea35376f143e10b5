package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// reach looks at a lock service whose namespace is not known yet.
func (e *examination) reach(ctx context.Context, c *config.Config, again string) {
	var place string
	var check func(context.Context) error
	switch l := c.Lock; {
	case c.LockInStore():
		if again == withStore {
			e.add("lock", levelWarning, again, "not looked at: guards are rows of the store's own database")
		}
		return
	case l.Driver == config.Redis:
		rdb := openRedis(l.Redis)
		defer rdb.Close()
		place, check = "redis "+sorted(l.Redis.Addrs), redislock.New(rdb).Check
	case l.Driver == config.ZooKeeper:
		place, check = "zookeeper "+sorted(l.ZooKeeper.Servers)+l.ZooKeeper.Root, openZooKeeper(l.ZooKeeper).Check
	default:
		e.add("lock", levelWarning, again, "not looked at: its keys stand under an id that the tables hold")
		return
	}
	began := time.Now()
	if err := check(ctx); err != nil {
		e.lockProblem(ctx, c, fmt.Errorf("lock service %s: %w", place, err))
		return
	}
	e.add("lock", levelOK, again, "%s answers after %v, more is not known yet", place, time.Since(began).Round(time.Millisecond))
}

func (e *examination) lockProblem(ctx context.Context, c *config.Config, err error) {
	advice := ""
	switch gone, answer := away(ctx, c.Lock, err); {
	case answer != nil:
		err = fmt.Errorf("%w: %w", answer, err)
	case gone:
		advice = connect + "; a replica starts without it, and until it is there " + untilThere(c.Lock.WhenDown)
	}
	e.add("lock", levelProblem, advice, "%v", err)
}

// lock opens the lock service, and says what it can do.
func (e *examination) lock(ctx context.Context, c *config.Config, p *parts) {
	began := time.Now()
	if err := p.openLock(ctx, c); err != nil {
		e.lockProblem(ctx, c, err)
		return
	}
	if p.locker == nil {
		e.add("lock", levelOK, "", "%s: guards are rows, locked inside the deciding transaction", p.service)
		return
	}
	e.add("lock", levelOK, "", "%s answers after %v", p.service, time.Since(began).Round(time.Millisecond))
	e.add("lock", levelOK, "", "%s", promises(p.locker.Caps()))
}

// otherStores looks for replicas of another store that hold locks of the same names.
func (e *examination) otherStores(ctx context.Context, p *parts) {
	if p.locker == nil {
		return
	}
	own, err := p.store.Namespace(ctx)
	if err != nil { // there are no tables, which was said
		return
	}
	for info, err := range p.locker.Inspect(ctx, "sys/stripe/") {
		if err != nil {
			if !errors.Is(err, locks.ErrRecovering) { // which ends by itself
				e.add("lock", levelWarning, "", "its locks could not be listed: %v", err)
			}
			return
		}
		if replica, other := scheduler.StripeHolder(info.Meta); other != "" && other != own {
			e.add("lock", levelWarning, "give each store a name of its own (name in the file, locks.Options.Namespace in Go)",
				"replica %s of another store has locks of the same names, so that what is due waits up to a second for them", replica)
			return
		}
	}
}

// promises says in words what a backend owns up to.
func promises(caps locks.Caps) string {
	var all []string
	say := func(holds bool, yes, no string) {
		switch {
		case holds:
			all = append(all, yes)
		case no != "":
			all = append(all, no)
		}
	}
	say(caps.FIFO, "who waits is served in order (FIFO)", "who waits is not served in order (no FIFO)")
	say(caps.EarlyLoss, "a holder knows of its loss before another holds (EarlyLoss)", "another may hold before the holder knows of its loss (no EarlyLoss): the rows decide then")
	say(caps.Volatile, "it may forget what it granted when it restarts", "")
	all = append(all, fmt.Sprintf("%v of each lease are not relied on beyond 1 %% (TrustMargin)", caps.TrustMargin))
	if caps.Note != "" {
		all = append(all, caps.Note)
	}
	return caps.Name + ": " + strings.Join(all, "; ")
}
