package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	rival "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

var errHeld = errors.New("held by another client")

// leaseTime is the lease of the other libraries and the bare operations; nothing here lasts as long.
const leaseTime = time.Minute

func onRedis(tb testing.TB) []contestant {
	tb.Helper()
	rdb := newRedis(tb)
	const raw = "Redis: SET NX PX, DEL (a pipeline)"
	return []contestant{
		{name: raw, take: func(ctx context.Context, keys []string) (func() error, error) { return setKeys(ctx, rdb, keys) }},
		ours(tb, "**redislock**, Lockstep", raw, redislock.New(rdb)).beside(bsmName),
		bsm(rdb, raw),
		redsyncMutex(rdb, raw),
	}
}

func newRedis(tb testing.TB) *redis.Client {
	tb.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: servers.Redis(tb)})
	tb.Cleanup(func() { rdb.Close() })
	return rdb
}

// setKeys is the simplest lock on Redis: a late holder would delete another's key.
func setKeys(ctx context.Context, rdb *redis.Client, keys []string) (func() error, error) {
	names := make([]string, len(keys))
	set := make([]*redis.StatusCmd, len(keys))
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			names[i] = "raw:" + key
			set[i] = p.SetArgs(ctx, names[i], "me", redis.SetArgs{Mode: "NX", TTL: leaseTime})
		}
		return nil
	})
	if errors.Is(err, redis.Nil) {
		return nil, errHeld
	}
	return func() error { return rdb.Del(ctx, names...).Err() }, err
}

const bsmName = "bsm/redislock"

// bsm has no call for several keys, nor has redsync: one after the other.
func bsm(rdb redis.UniversalClient, raw string) contestant {
	client := rival.New(rdb)
	return contestant{name: bsmName, raw: raw, take: oneByOne(func(ctx context.Context, key string) (func() error, error) {
		lock, err := client.Obtain(ctx, "bsm:"+key, leaseTime, nil)
		if err != nil {
			return nil, err
		}
		return func() error { return lock.Release(ctx) }, nil
	})}
}

func redsyncMutex(rdb redis.UniversalClient, raw string) contestant {
	return mutexes(redsync.New(goredis.NewPool(rdb)), "redsync", raw)
}

func mutexes(sync *redsync.Redsync, name, raw string) contestant {
	return contestant{name: name, raw: raw, take: oneByOne(func(ctx context.Context, key string) (func() error, error) {
		mutex := sync.NewMutex("redsync:"+key, redsync.WithExpiry(leaseTime))
		if err := mutex.TryLockContext(ctx); err != nil {
			return nil, err
		}
		return func() error { _, err := mutex.UnlockContext(ctx); return err }, nil
	})}
}

func oneByOne(take func(ctx context.Context, key string) (func() error, error)) func(context.Context, []string) (func() error, error) {
	return func(ctx context.Context, keys []string) (func() error, error) {
		releases := make([]func() error, len(keys))
		for i, key := range keys {
			var err error
			if releases[i], err = take(ctx, key); err != nil {
				return nil, err
			}
		}
		return func() error {
			var errs []error
			for _, release := range releases {
				errs = append(errs, release())
			}
			return errors.Join(errs...)
		}, nil
	}
}
