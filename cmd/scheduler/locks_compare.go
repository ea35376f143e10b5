package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
)

// agree refuses a lock that the live replicas of the store would not see, as they use another lock service or namespace: what
// [scheduler.Scheduler.Run] refuses a replica for. A store that p does not need may be away: then a warning says so. Where there is
// no store, there are no replicas.
func (a *app) agree(ctx context.Context, c *config.Config, p *parts) error {
	namespace, err := p.namespace(ctx, c)
	if err != nil {
		return err
	}
	service, err := lockService(c, namespace)
	if err != nil {
		return err
	}
	st, opened := p.store, error(nil)
	if st == nil {
		if st, opened = openToCompare(ctx, c.Store); st != nil {
			defer st.Close()
		}
	}
	if st != nil {
		opened = a.sameService(ctx, st, scheduler.Fingerprint(service))
	}
	switch {
	case opened == nil, errors.Is(opened, fs.ErrNotExist), errors.Is(opened, store.ErrSchema):
		return nil
	case errors.Is(opened, ledger.ErrLockService):
		return exit{exitUsage, fmt.Errorf("%w\nThe two would not exclude each other, so the command was not run. Name the file of the replicas with -c, "+
			"or give both files the same name: and lock:; if their lock protocols differ, use one version of the program; "+
			"if the two are to have nothing in common, give this file another store", opened)}
	case ctx.Err() != nil:
		return opened
	}
	fmt.Fprintf(a.stderr, "warning: the store cannot be read, so it is not known whether its replicas use the same lock service: %v\n", opened)
	return nil
}

// compareTimeout is how long a store that is only compared with may take to answer.
const compareTimeout = 2 * time.Second

// openToCompare opens a store to read its replicas. The error is fs.ErrNotExist for a file that is not there: none is made.
func openToCompare(ctx context.Context, c config.Store) (*store.Store, error) {
	if c.Driver == config.SQLite {
		if _, err := os.Stat(c.DSN); err != nil {
			return nil, err
		}
		return store.OpenReadOnly(ctx, c.DSN, store.Options{Prefix: c.TablePrefix})
	}
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	return openStore(ctx, c)
}

// sameService is ledger.ErrLockService if a live replica uses another lock service than one with this fingerprint.
//
//  1. list the sessions with another fingerprint, but for those whose process has ended
//  2. look again until one of them has sent a heartbeat: its replica is live. Before that, say what is waited for
//  3. leave out those that have sent none for the ttl of their session
func (a *app) sameService(ctx context.Context, st *store.Store, fingerprint string) error {
	host, _ := os.Hostname()
	began := time.Now()
	beats := map[string]int64{}
	for {
		peers, err := st.Sides().Replica.Peers(ctx)
		if err != nil {
			if schema := st.CheckSchema(ctx); errors.Is(schema, store.ErrSchema) {
				return schema
			}
			return err
		}
		others, first := 0, len(beats) == 0
		for _, p := range peers {
			if p.Dead || p.IsWorker() || p.Gone(host) || p.LockService == fingerprint {
				continue
			}
			beat, known := beats[p.Session]
			switch {
			case known && beat != p.Beat:
				return fmt.Errorf("%w: live replica %q uses %s, this command %s", ledger.ErrLockService, p.Replica, p.LockService, fingerprint)
			case !known:
				beats[p.Session] = p.Beat
			}
			if time.Since(began) < p.TTL {
				others++
			}
			if first {
				fmt.Fprintf(a.stderr, "warning: replica %q on %s uses another lock service; waiting up to %v to see whether it is live\n", p.Replica, p.Host, p.TTL)
			}
		}
		if others == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
