package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/locks/zklock"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// locks releases what its successor holds, in a namespace of its own.
type locks struct {
	driver  driver.Driver // nil: the locks are the store's
	closers []func() error
	last    driver.Session // holds key under token, or did
	token   driver.Token
}

const key = "zombie"

func openLocks(kind, addr, mode string) (*locks, error) {
	l := &locks{}
	switch kind {
	case "":
		return l, nil
	case "redis":
		c := redis.NewClient(&redis.Options{Addr: addr})
		l.driver, l.closers = redislock.New(c), append(l.closers, c.Close)
	case "zookeeper":
		l.driver = zklock.New(strings.Split(addr, ","), zklock.Options{Root: "/chaos-zombie", SessionTimeout: 2 * time.Second})
	case "mysql":
		db, err := sql.Open("mysql", addr)
		if err != nil {
			return nil, err
		}
		l.driver = sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Mode(mode), TablePrefix: "chaos_zombie_"})
		l.closers = append(l.closers, db.Close)
	default:
		return nil, fmt.Errorf("unknown lock service %q", kind)
	}
	return l, nil
}

// rise takes the key over, and then releases it with the hold of the one before.
func (l *locks) rise(ctx context.Context, log *history.Log[history.Stale]) error {
	if l.driver == nil {
		return nil
	}
	next, err := l.driver.Open(ctx, driver.Open{Namespace: "chaos-zombie", TTL: 2 * time.Second, Owner: "zombie"})
	if err != nil {
		return err
	}
	previous, old := l.last, driver.Held{Key: key, Token: l.token}
	if previous != nil {
		defer func() { _ = previous.Close(ctx) }() // it may be lost
		if err := previous.Release(ctx, []driver.Held{old}); err != nil {
			return errors.Join(err, next.Close(ctx))
		}
	}
	l.last = nil
	granted, err := next.TryAcquire(ctx, rand.Text(), []driver.Want{{Key: key}})
	if err != nil || granted[0].Token == 0 { // not even tried, not known, or not free yet
		return errors.Join(err, next.Close(ctx))
	}
	l.last, l.token = next, granted[0].Token
	if previous == nil {
		return nil
	}
	mine := []driver.Held{{Key: key, Token: l.token}}
	if held, err := next.Check(ctx, mine); err != nil || !held[0] { // a fault was faster
		return err
	}
	s := history.Stale{At: time.Now(), What: "release", TaskID: key, Token: int64(old.Token)}
	if err := previous.Release(ctx, []driver.Held{old}); err != nil && !errors.Is(err, driver.ErrSessionLost) {
		return err
	}
	still, err := next.Check(ctx, mine)
	if err != nil {
		return err
	}
	if !still[0] { // by a fault, or by the release: a session that lives tells
		if err := next.Renew(ctx); err != nil {
			return err
		}
	}
	// Releasing what is not ours is left alone without a word: not to change anything is the refusal.
	s.Refused, s.Changed = still[0], !still[0]
	return log.Add(s)
}

func (l *locks) close() error {
	var errs []error
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if l.last != nil {
		errs = append(errs, l.last.Close(ctx))
	}
	if l.driver != nil {
		errs = append(errs, l.driver.Close())
	}
	for _, closer := range l.closers {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}
