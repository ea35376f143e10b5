package nemesis

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
)

// frozenFor is how long whoever freezes is frozen: long enough to lose its session and its locks.
const frozenFor = 5 * max(arena.SessionTTL, arena.LockTTL) / 2

var errNobody = errors.New("no replica runs")

// pick is a replica that runs.
func pick(a *arena.Arena, r *rand.Rand) (*arena.Replica, error) {
	for _, i := range r.Perm(len(a.Replicas)) {
		if a.Replicas[i].Alive() {
			return a.Replicas[i], nil
		}
	}
	return nil, errNobody
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
func onRedis(c arena.Cell) bool      { return c.Lock == arena.Redis }
func onZooKeeper(c arena.Cell) bool  { return c.Lock == arena.ZooKeeper }
func onLockServer(c arena.Cell) bool { return c.Lock == arena.Lease || c.Lock == arena.Row }

// overNetwork says that the locks are reached over edges of their own.
func overNetwork(c arena.Cell) bool { return onRedis(c) || onZooKeeper(c) || onLockServer(c) }

// poll asks every few milliseconds whether something is so, and gives up after limit.
func poll(limit time.Duration, so func() bool) bool {
	for end := time.Now().Add(limit); ; time.Sleep(2 * time.Millisecond) {
		if so() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
