package redislock

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
)

// A release publishes one notification, to the session whose turn it is: the others that wait learn nothing.
func TestNoHerd(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	const ns = "herd"
	a := begin(t, rdb, ns)
	held := lockstest.Grant(t, a, "k")
	holder := a
	var waiters []driver.Session
	var places []driver.Place
	for range 5 {
		s := begin(t, rdb, ns)
		waiters, places = append(waiters, s), append(places, queued(t, s, driver.Want{Key: "k"}))
	}
	for turn, s := range waiters {
		counts := counted(t, rdb, func() { release(t, holder, held) })
		if n := counts["publish"]; n != 1 {
			t.Errorf("turn %d: %d notifications of one release", turn, n)
		}
		holder, held = s, granted(t, s, places[turn])
		for i, other := range waiters {
			if n := len(other.Queue().Granted()); n > 0 {
				t.Errorf("turn %d: number %d has %d notifications", turn, i, n)
			}
		}
	}
}
