//go:build linux

package nemesis

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// frozenFor is the length of a freeze: long enough to lose session and locks.
const frozenFor = 5 * max(arena.SessionTTL, arena.LockTTL) / 2

var (
	errNobody = errors.New("no replica runs")
	errIdle   = errors.New("no replica runs a command")
)

// pick is a running replica: rather one that runs a command, and one that another nemesis has stopped only if
// there is no other.
func pick(a *arena.Arena, r *rand.Rand) (victim *arena.Replica, err error) {
	busy, best := commandsOf(a), 0
	for _, i := range r.Perm(len(a.Replicas)) {
		one, good := a.Replicas[i], 0
		switch {
		case !one.Alive():
		case stopped(one.PID()):
			good = 1
		case len(busy[one.ID]) == 0:
			good = 2
		default:
			good = 3
		}
		if good > best {
			victim, best = one, good
		}
	}
	if victim == nil {
		return nil, errNobody
	}
	return victim, nil
}

// pickBeside is another replica, which runs and answers.
func pickBeside(a *arena.Arena, victim *arena.Replica) (*arena.Replica, error) {
	for _, r := range a.Replicas {
		if r != victim && r.Alive() && !stopped(r.PID()) {
			return r, nil
		}
	}
	return nil, errNobody
}

// chooser chooses the replicas for a nemesis.
type chooser func(*arena.Arena, *rand.Rand) ([]*arena.Replica, error)

func one(a *arena.Arena, r *rand.Rand) ([]*arena.Replica, error) {
	victim, err := pick(a, r)
	return []*arena.Replica{victim}, err
}

func allReplicas(a *arena.Arena, _ *rand.Rand) ([]*arena.Replica, error) { return a.Replicas, nil }

// commandsOf are the commands that run now, by their replicas' ids.
func commandsOf(a *arena.Arena) map[string][]int {
	return commands(filepath.Join(a.Dir, history.EffectsFile))
}

const chance = 10 * time.Second // for a moment that a nemesis waits for

// pickBusy is a replica that runs commands which are not about to end, and how many. It waits for one until ctx ends.
func pickBusy(ctx context.Context, a *arena.Arena, r *rand.Rand) (victim *arena.Replica, busy int, err error) {
	var before map[string][]int
	found := poll(ctx, 0, seldom, func() bool {
		now := commandsOf(a)
		for _, i := range r.Perm(len(a.Replicas)) {
			one := a.Replicas[i]
			busy = 0
			for _, pid := range now[one.ID] {
				if slices.Contains(before[one.ID], pid) {
					busy++
				}
			}
			if busy > 0 && one.Alive() {
				victim = one
				return true
			}
		}
		before = now // commands that are still there take their time
		return false
	})
	if !found {
		return nil, 0, errors.Join(errIdle, ctx.Err())
	}
	return victim, busy, nil
}

func ids(replicas ...*arena.Replica) (all []string) {
	for _, r := range replicas {
		all = append(all, r.ID)
	}
	return all
}

// Where a nemesis fits.
func onMariaDB(c arena.Cell) bool    { return c.Store == arena.MariaDB }
func onSQLite(c arena.Cell) bool     { return c.Store == arena.SQLite }
func onLease(c arena.Cell) bool      { return c.Lock == arena.Lease }
func onRedis(c arena.Cell) bool      { return c.Lock == arena.Redis }
func onQuorum(c arena.Cell) bool     { return c.Lock == arena.Quorum }
func onZooKeeper(c arena.Cell) bool  { return c.Lock == arena.ZooKeeper }
func onLockServer(c arena.Cell) bool { return onLease(c) || c.Lock == arena.Row }

// overNetwork says that the locks are reached over edges of their own.
func overNetwork(c arena.Cell) bool {
	return onRedis(c) || onQuorum(c) || onZooKeeper(c) || onLockServer(c)
}

const (
	often  = 2 * time.Millisecond
	seldom = 50 * time.Millisecond // for expensive checks
)

// poll asks repeatedly, with pauses, whether something is so. It gives up after limit (0: none), and when ctx
// ends.
func poll(ctx context.Context, limit, between time.Duration, so func() bool) bool {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	for {
		if so() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(between):
		}
	}
}
