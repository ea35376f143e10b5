//go:build linux

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// quorums break servers of a quorum. While a majority is left nothing is excused but what waits for a server that does not
// answer.
func quorums() []Nemesis {
	const while = 8 * time.Second
	return []Nemesis{
		{Name: "quorum-minority-killed", subject: lock, Hold: while, Fits: onQuorum, Strike: killNodes(2)}, // and started empty
		{Name: "quorum-majority-killed", subject: lock, Kinds: lockGone, Hold: while, Fits: onQuorum, Strike: killNodes(3)},
		{Name: "quorum-restarted-in-turn", subject: lock, Hold: 2 * arena.LockTTL, Fits: onQuorum, Strike: restartNodes},
		{Name: "quorum-node-frozen", subject: lock, Kinds: lockSlow, Hold: frozenFor, Fits: onQuorum, Strike: func(_ context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
			return freezeServer("a Redis", a.Quorum[r.IntN(len(a.Quorum))])
		}},
		{Name: "quorum-node-flushed", subject: lock, Hold: while, Fits: onQuorum, Strike: flushNode},
		{Name: "quorum-node-cut", subject: lockEdge, Kinds: lockSlow, Fits: onQuorum, Strike: cutNode},
	}
}

// askNode opens a client of one server for a moment.
func askNode(ctx context.Context, s *servers.RedisServer, question func(context.Context, *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	return errors.Join(question(ctx, c), c.Close())
}

// keysOfNode counts the keys of a server, once there is one.
func keysOfNode(ctx context.Context, s *servers.RedisServer) (n int64, err error) {
	err = askNode(ctx, s, func(ctx context.Context, c *redis.Client) (err error) {
		n, err = awaitKeys(ctx, c)
		return err
	})
	return n, err
}

// some are n of the servers.
func some(a *arena.Arena, r *rand.Rand, n int) (victims []*servers.RedisServer) {
	for _, i := range r.Perm(len(a.Quorum))[:n] {
		victims = append(victims, a.Quorum[i])
	}
	return victims
}

func killNodes(n int) strike {
	return func(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
		victims := some(a, r, n)
		var before int64
		for _, s := range victims {
			keys, err := keysOfNode(ctx, s)
			if err != nil {
				return Struck{}, err
			}
			before += keys
		}
		var pids []int
		for _, s := range victims {
			pids = append(pids, s.PID())
			s.Kill()
		}
		return Struck{Heal: func(ctx context.Context) (bool, string, error) {
			gone := !slices.ContainsFunc(pids, func(pid int) bool { return state(pid) != "" })
			var err error
			for _, s := range victims { // in any case
				err = errors.Join(err, s.Restart(context.WithoutCancel(ctx)))
			}
			return gone && before > 0, fmt.Sprintf("processes %v are gone, and %d keys with them", pids, before), err
		}}, nil
	}
}

// restartNodes starts all servers again, without their data, one after the other. Between them is time for two renewals, and for
// one TTL, in which the server does not vote.
func restartNodes(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	var before int64
	for i, s := range some(a, r, len(a.Quorum)) {
		if i > 0 {
			select {
			case <-time.After(2 * arena.LockTTL):
			case <-ctx.Done():
				return Struck{}, ctx.Err()
			}
		}
		keys, err := keysOfNode(ctx, s)
		if err != nil {
			return Struck{}, err
		}
		before += keys
		s.Kill()
		if err := s.Restart(context.WithoutCancel(ctx)); err != nil {
			return Struck{Heal: func(ctx context.Context) (bool, string, error) {
				return false, fmt.Sprintf("it did not start again at once: %v", err), s.Restart(context.WithoutCancel(ctx))
			}}, nil
		}
	}
	return done(before > 0, fmt.Sprintf("%d keys were there", before)), nil
}

func flushNode(ctx context.Context, a *arena.Arena, r *rand.Rand) (struck Struck, err error) {
	s := a.Quorum[r.IntN(len(a.Quorum))]
	before, err := keysOfNode(ctx, s)
	if err != nil {
		return Struck{}, err
	}
	err = askNode(ctx, s, func(ctx context.Context, c *redis.Client) error { return c.FlushAll(ctx).Err() })
	return done(before > 0, fmt.Sprintf("%d keys were there", before)), err
}

// cutNode disconnects one server from all replicas.
func cutNode(_ context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	i := r.IntN(len(a.Quorum))
	var broken []*proxy.Proxy
	for _, replica := range a.Replicas {
		broken = append(broken, replica.LockEdges[i])
	}
	before := total(broken)
	setAll(broken, proxy.BlackHole)
	return Struck{Heal: func(context.Context) (bool, string, error) {
		after := total(broken)
		setAll(broken, proxy.Fault{})
		held, lost := after.Held-before.Held, after.Lost-before.Lost
		return held+lost > 0, fmt.Sprintf("%d edges of one server: %d bytes held, %d lost", len(broken), held, lost), nil
	}}, nil
}

// stepNode steps the clock of one server.
func stepNode(by time.Duration) strike {
	return func(_ context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
		if a.OneClock == nil {
			return Struck{}, errNoClocks
		}
		if err := a.OneClock.Step(by); err != nil {
			return Struck{}, err
		}
		return healed(a.OneClock, func(ctx context.Context) (bool, string, error) {
			var at time.Time
			err := askNode(ctx, a.Quorum[0], func(ctx context.Context, c *redis.Client) (err error) {
				at, err = c.Time(ctx).Result()
				return err
			})
			ahead := time.Until(at)
			return (ahead - by).Abs() < 2*time.Second, fmt.Sprintf("Redis shows a time %v ahead", ahead.Round(time.Second)), err
		}), nil
	}
}
