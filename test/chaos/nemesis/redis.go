//go:build linux

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

// forgets make Redis lose data.
func forgets() []Nemesis {
	const while = 8 * time.Second
	return []Nemesis{
		{Name: "redis-restarted-empty", subject: lock, Kinds: lockGone, Hold: while, Fits: onRedis, Strike: restartEmpty},
		{Name: "redis-restarted", subject: lock, Kinds: lockDown, Hold: while, Fits: onRedis, Strike: restartAppended},
		{Name: "redis-old-rdb", subject: lock, Kinds: lockDown, Hold: while, Fits: onRedis, Strike: restartOld},
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
		started := a.Redis.Restart(context.WithoutCancel(ctx)) // it is started in any case
		return before > 0 && err != nil, fmt.Sprintf("%d keys were there; then: %v", before, err), started
	}}, nil
}

// restartAppended makes the server keep its data in its append-only file, and starts it again from there.
func restartAppended(ctx context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
	dir, err := dirOf(ctx, a)
	if err != nil {
		return Struck{}, err
	}
	defer os.RemoveAll(filepath.Join(dir, "appendonlydir")) // so that no later start finds it
	var kept int64
	err = ask(ctx, a, func(ctx context.Context, c *redis.Client) (err error) {
		if err := c.ConfigSet(ctx, "appendonly", "yes").Err(); err != nil {
			return err
		}
		var info string
		written := poll(ctx, chance, often, func() bool { // it begins with all that is there, in the background
			info, err = c.Info(ctx, "persistence").Result()
			return err != nil || strings.Contains(info, "aof_rewrite_in_progress:0\r\n") && strings.Contains(info, "aof_rewrite_scheduled:0\r\n")
		})
		if err == nil && (!written || !strings.Contains(info, "aof_enabled:1\r\n")) {
			return fmt.Errorf("it does not append: %q", info)
		}
		kept, err = awaitKeys(ctx, c)
		return err
	})
	if err != nil {
		return Struck{}, errors.Join(err, appendNoMore(ctx, a))
	}
	a.Redis.Kill()
	if err := a.Redis.RestartWith(context.WithoutCancel(ctx), "--appendonly", "yes"); err != nil {
		return startedLate(a, err), nil
	}
	then, err := keysOf(ctx, a)
	evidence := fmt.Sprintf("%d keys were there, and %d after a restart from its append-only file", kept, then)
	return done(kept > 0 && then > 0, evidence), errors.Join(err, appendNoMore(ctx, a))
}

func appendNoMore(ctx context.Context, a *arena.Arena) error {
	return ask(ctx, a, func(ctx context.Context, c *redis.Client) error { return c.ConfigSet(ctx, "appendonly", "no").Err() })
}

// restartOld starts the server again from a snapshot that is older than any lease: its locks have other holders
// now.
func restartOld(ctx context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
	const newer = "written-after-the-snapshot"
	dir, err := dirOf(ctx, a)
	if err != nil {
		return Struck{}, err
	}
	defer os.Remove(filepath.Join(dir, "dump.rdb")) // so that no later start finds it
	var saved int64
	err = ask(ctx, a, func(ctx context.Context, c *redis.Client) (err error) {
		if saved, err = awaitKeys(ctx, c); err != nil {
			return err
		}
		return errors.Join(c.Save(ctx).Err(), c.Set(ctx, newer, "", 0).Err())
	})
	if err != nil {
		return Struck{}, err
	}
	select {
	case <-time.After(2 * arena.LockTTL):
	case <-ctx.Done():
		return Struck{}, ctx.Err()
	}
	a.Redis.Kill()
	if err := a.Redis.Restart(context.WithoutCancel(ctx)); err != nil {
		return startedLate(a, err), nil
	}
	var then, known int64
	err = ask(ctx, a, func(ctx context.Context, c *redis.Client) (err error) {
		if then, err = c.DBSize(ctx).Result(); err != nil {
			return err
		}
		known, err = c.Exists(ctx, newer).Result()
		return err
	})
	evidence := fmt.Sprintf("%d keys were saved, %d were there after a restart; of what was written since, %d", saved, then, known)
	return done(saved > 0 && then > 0 && known == 0, evidence), err
}

// startedLate is the result of a restart that failed: the server is started in any case.
func startedLate(a *arena.Arena, err error) Struck {
	return Struck{Heal: func(ctx context.Context) (bool, string, error) {
		return false, fmt.Sprintf("it did not start again at once: %v", err), a.Redis.Restart(context.WithoutCancel(ctx))
	}}
}

// awaitKeys returns how many keys there are once there is one: the server may just have lost everything.
func awaitKeys(ctx context.Context, c *redis.Client) (n int64, err error) {
	poll(ctx, chance, often, func() bool {
		n, err = c.DBSize(ctx).Result()
		return n > 0 || err != nil
	})
	return n, err
}

// dirOf is where the server keeps its files.
func dirOf(ctx context.Context, a *arena.Arena) (dir string, err error) {
	err = ask(ctx, a, func(ctx context.Context, c *redis.Client) error {
		answer, err := c.ConfigGet(ctx, "dir").Result()
		dir = answer["dir"]
		return err
	})
	return dir, err
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

// deleteKey deletes one held lock at the server.
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
		return errors.New("no key is held")
	})
	return struck, err
}
