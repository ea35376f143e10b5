package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
)

// forgets let Redis lose what it knew.
func forgets() []Nemesis {
	const while = 8 * time.Second
	return []Nemesis{
		{Name: "redis-restarted-empty", subject: lock, Kinds: lockGone, Hold: while, Fits: onRedis, Strike: restartEmpty},
		{Name: "redis-restarted", subject: lock, Kinds: lockDown, Hold: while, Fits: onRedis, Strike: restartSaved(0)},
		{Name: "redis-old-rdb", subject: lock, Kinds: lockDown, Hold: while, Fits: onRedis, Strike: restartSaved(2 * arena.LockTTL)},
		{Name: "redis-flushall", subject: lock, Kinds: lockDown, Hold: while, Fits: onRedis, Strike: flush},
		{Name: "redis-script-flush", subject: lock, Hold: while, Fits: onRedis, Strike: scriptFlush}, // nothing is excused
		{Name: "redis-key-deleted", subject: lock, Kinds: lockDown, Hold: while, Fits: onRedis, Strike: deleteKey},
		{Name: "redis-frozen", subject: lock, Kinds: lockGone, Hold: frozenFor, Fits: onRedis, Strike: func(_ context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
			return freezeServer("Redis", a.Redis)
		}},
	}
}

// ask opens a client of the cell's Redis for a moment.
func ask(ctx context.Context, a *arena.Arena, question func(context.Context, *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: a.Redis.Addr, MaxRetries: -1})
	err := question(ctx, c)
	return errors.Join(err, c.Close())
}

func keysOf(ctx context.Context, a *arena.Arena) (n int64, err error) {
	err = ask(ctx, a, func(ctx context.Context, c *redis.Client) (err error) {
		n, err = c.DBSize(ctx).Result()
		return err
	})
	return n, err
}

func restartEmpty(ctx context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
	before, err := keysOf(ctx, a)
	if err != nil {
		return Struck{}, err
	}
	a.Redis.Kill()
	return Struck{Heal: func(ctx context.Context) (bool, string, error) {
		err := ask(ctx, a, func(ctx context.Context, c *redis.Client) error { return c.Ping(ctx).Err() })
		started := a.Redis.Restart(context.WithoutCancel(ctx)) // it comes back in any case
		return before > 0 && err != nil, fmt.Sprintf("%d keys were there; then: %v", before, err), started
	}}, nil
}

// restartSaved starts the server again from a snapshot that is so old: at once, it knows what it
// knew, and later locks have changed hands meanwhile.
func restartSaved(old time.Duration) strike {
	return func(ctx context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
		return restartFrom(ctx, a, old)
	}
}

func restartFrom(ctx context.Context, a *arena.Arena, old time.Duration) (Struck, error) {
	var dir string
	var saved, then int64
	if err := ask(ctx, a, func(ctx context.Context, c *redis.Client) (err error) {
		for saved == 0 { // it may just have lost everything
			if saved, err = c.DBSize(ctx).Result(); err != nil {
				return err
			}
			time.Sleep(10 * time.Millisecond)
		}
		answer, err := c.ConfigGet(ctx, "dir").Result()
		dir = answer["dir"]
		return errors.Join(err, c.Save(ctx).Err())
	}); err != nil {
		return Struck{}, err
	}
	snapshot := filepath.Join(dir, "dump.rdb")
	defer os.Remove(snapshot) // so that it is not found by later starts
	select {
	case <-time.After(old):
	case <-ctx.Done():
		return Struck{}, ctx.Err()
	}
	a.Redis.Kill()
	if err := a.Redis.Restart(context.WithoutCancel(ctx)); err != nil { // it comes back in any case
		return Struck{Heal: func(ctx context.Context) (bool, string, error) {
			return false, fmt.Sprintf("it did not start again at once: %v", err), a.Redis.Restart(context.WithoutCancel(ctx))
		}}, nil
	}
	then, err := keysOf(ctx, a)
	if err != nil {
		return Struck{}, err
	}
	return done(saved > 0 && then > 0, fmt.Sprintf("%d keys were saved, %d were there after a restart", saved, then)), nil
}

func flush(ctx context.Context, a *arena.Arena, _ *rand.Rand) (struck Struck, err error) {
	err = ask(ctx, a, func(ctx context.Context, c *redis.Client) error {
		before, err := c.DBSize(ctx).Result()
		if err != nil {
			return err
		}
		struck = done(before > 0, fmt.Sprintf("%d keys were there", before))
		return c.FlushAll(ctx).Err()
	})
	return struck, err
}

func scriptFlush(ctx context.Context, a *arena.Arena, _ *rand.Rand) (struck Struck, err error) {
	err = ask(ctx, a, func(ctx context.Context, c *redis.Client) error {
		info, err := c.Info(ctx, "memory").Result()
		if err != nil {
			return err
		}
		_, rest, _ := strings.Cut(info, "number_of_cached_scripts:")
		count, _, _ := strings.Cut(rest, "\r\n")
		struck = done(count != "" && count != "0", count+" scripts were known")
		return c.ScriptFlush(ctx).Err()
	})
	return struck, err
}

// deleteKey lets the server forget one lock that somebody holds.
func deleteKey(ctx context.Context, a *arena.Arena, r *rand.Rand) (struck Struck, err error) {
	err = ask(ctx, a, func(ctx context.Context, c *redis.Client) error {
		tables, err := c.Keys(ctx, "*:holders").Result()
		if err != nil {
			return err
		}
		for _, table := range tables {
			held, err := c.HKeys(ctx, table).Result()
			if err != nil {
				return err
			}
			stripes := slices.DeleteFunc(held, func(key string) bool { return !strings.HasPrefix(key, "sys/stripe/") })
			if len(stripes) == 0 {
				continue // of another namespace
			}
			slices.Sort(stripes)
			key := stripes[r.IntN(len(stripes))]
			n, err := c.HDel(ctx, table, key).Result()
			struck = done(n == 1, fmt.Sprintf("%s was held, and is not", key))
			return err
		}
		return errors.New("nobody holds anything")
	})
	return struck, err
}
