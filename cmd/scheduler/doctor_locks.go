package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/quorumlock"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// reach checks a lock service whose namespace is not known yet. again is the advice for what it cannot check.
func (e *examination) reach(ctx context.Context, c *config.Config, again string) {
	var place string
	var check func(context.Context) error
	switch l := c.Lock; {
	case c.LockInStore():
		if again == withStore {
			e.add("lock", levelWarning, again, "not checked: locks are rows of the store's own database")
		}
		return
	case l.Driver == config.Redis:
		rdb := openRedis(l.Redis)
		defer rdb.Close()
		place, check = "redis "+sorted(l.Redis.Addrs), redislock.New(rdb).Check
	case l.Driver == config.Quorum:
		clients := openQuorum(l.Quorum)
		for _, rdb := range clients {
			defer rdb.Close()
		}
		place, check = "quorum of "+sorted(l.Quorum.Addrs()), quorumlock.New(clients, quorumlock.Options{}).Check
	case l.Driver == config.ZooKeeper:
		place, check = "zookeeper "+sorted(l.ZooKeeper.Servers)+l.ZooKeeper.Root, openZooKeeper(l.ZooKeeper).Check
	default:
		e.add("lock", levelWarning, again, "not checked: the namespace of its keys is in the tables")
		return
	}
	began := time.Now()
	if err := check(ctx); err != nil {
		e.lockProblem(ctx, c, fmt.Errorf("lock service %s: %w", place, err))
		return
	}
	e.add("lock", levelOK, again, "%s answers after %v, the rest is not checked yet", place, time.Since(began).Round(time.Millisecond))
}

func (e *examination) lockProblem(ctx context.Context, c *config.Config, err error) {
	advice := ""
	switch transient, diagnosis := unreachable(ctx, c.Lock, err); {
	case diagnosis != nil:
		err = fmt.Errorf("%w: %w", diagnosis, err)
	case transient:
		advice = connect + "; a replica starts without it; meanwhile " + whileDown(c.Lock.WhenDown)
	}
	e.add("lock", levelProblem, advice, "%v", err)
}

// lock opens the lock service, and lists its capabilities.
func (e *examination) lock(ctx context.Context, c *config.Config, p *parts) {
	began := time.Now()
	if err := p.openLock(ctx, c); err != nil {
		e.lockProblem(ctx, c, err)
		return
	}
	if p.locker == nil {
		e.add("lock", levelOK, "", "%s: locks are rows, locked inside the deciding transaction", p.service)
		e.prove(ctx, c, p)
		return
	}
	e.add("lock", levelOK, "", "%s answers after %v", p.service, time.Since(began).Round(time.Millisecond))
	e.prove(ctx, c, p)
	e.add("lock", levelOK, "", "%s", capabilities(p.locker.Caps()))
	if c.Lock.Driver == config.Redis {
		e.redisReplicas(ctx, c.Lock)
	}
}

// otherStores finds replicas of another store in the same lock namespace.
func (e *examination) otherStores(ctx context.Context, p *parts) {
	if p.locker == nil {
		return
	}
	own, err := p.store.Namespace(ctx)
	if err != nil { // no tables: reported already
		return
	}
	for info, err := range p.locker.Inspect(ctx, "sys/stripe/") {
		if err != nil {
			if !errors.Is(err, locks.ErrRecovering) { // it ends by itself
				e.add("lock", levelWarning, "", "locks could not be listed: %v", err)
			}
			return
		}
		if replica, other := scheduler.StripeHolder(info.Meta); other != "" && other != own {
			e.add("lock", levelWarning, "give each store its own name (name in the file, locks.Options.Namespace in Go)",
				"replica %s of another store holds locks of the same names, which delays triggers by up to a second", replica)
			return
		}
	}
}

// capabilities lists what a backend guarantees.
func capabilities(caps locks.Caps) string {
	var all []string
	say := func(holds bool, yes, no string) {
		switch {
		case holds:
			all = append(all, yes)
		case no != "":
			all = append(all, no)
		}
	}
	say(caps.FIFO, "waiters are served in order (FIFO)", "waiters are not served in order (no FIFO)")
	say(caps.EarlyLoss, "a holder learns of its loss before the next grant (EarlyLoss)", "the next grant may precede the holder's notice of its loss (no EarlyLoss): rows decide then")
	say(caps.Volatile, "a restart may lose its grants", "")
	say(caps.SingleHost, "locks exclude processes of this machine only", "")
	say(!caps.Shared, "there are no shared locks", "")
	say(!caps.Limit, "locks have one holder: no limits", "")
	untrusted := "the last 1 % of each lease is not trusted (TrustMargin)"
	if caps.TrustMargin > 0 {
		untrusted = fmt.Sprintf("the last 1 %% of each lease, and %v more, is not trusted (TrustMargin)", caps.TrustMargin)
	}
	all = append(all, untrusted)
	if caps.Note != "" {
		all = append(all, caps.Note)
	}
	return caps.Name + ": " + strings.Join(all, "; ")
}
