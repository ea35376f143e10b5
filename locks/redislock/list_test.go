package redislock

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// changing are the commands with which the scripts change what is held.
var changing = []string{"hset", "hdel", "zadd", "zrem"}

// crowded is a namespace in which one session holds many keys, each granted by acquire_fast.lua, in front of, below and behind
// the prefix "user/".
func crowded(t *testing.T) (rdb *redis.Client, s driver.Session) {
	t.Helper()
	rdb = client(t, servers.NewRedis(t).Addr)
	s = begin(t, rdb, "crowded")
	lockstest.Grant(t, s, "first") // which gives the session its proof
	for prefix, many := range map[string]int{"sys/": 2000, "user/": 500, "zoo/": 2000} {
		for from := 0; from < many; from += 500 {
			var keys []string
			for i := range 500 {
				keys = append(keys, fmt.Sprintf("%s%04d", prefix, from+i))
			}
			lockstest.Acquire(t, s, fmt.Sprint(prefix, from), keys...)
		}
	}
	if n := must1(t, rdb.HLen(t.Context(), part("crowded", "holders"))); n > 1 {
		t.Fatalf("%d entries, want one: the others were to be granted without", n)
	}
	return rdb, s
}

// A list reads the keys of its page and writes nothing, however many others are held in the namespace.
func TestAListReadsItsPageAlone(t *testing.T) {
	t.Parallel()
	rdb, s := crowded(t)
	const limit = 20
	for after, first := range map[string]string{"": "user/0000", "user/0479": "user/0480"} {
		var infos []driver.Info
		counts := counted(t, rdb, func() {
			var err error
			if infos, err = s.List(t.Context(), "user/", after, limit); err != nil {
				t.Fatal(err)
			}
		})
		if len(infos) != limit || infos[0].Key != first {
			t.Fatalf("%d keys, the first is %s; want %d from %s on", len(infos), infos[0].Key, limit, first)
		}
		for _, command := range append([]string{"hgetall", "hscan"}, changing...) {
			if n := counts[command]; n > 0 {
				t.Errorf("after %q: %d times %s, want none", after, n, command)
			}
		}
		// Of each key: its record, in one of two places, how long its session lasts, and the queue behind it.
		if gets, ranges := counts["hget"], counts["zrangebylex"]; gets > 3*limit || ranges > 2*limit {
			t.Errorf("after %q: %d times hget and %d times zrangebylex for %d keys", after, gets, ranges, limit)
		}
	}
}

// The end of a session frees what it held, and touches nothing of what others hold.
func TestTheEndOfASessionTouchesItsKeysAlone(t *testing.T) {
	t.Parallel()
	rdb, s := crowded(t)
	for what, end := range map[string]func(c driver.Session){
		"closed": func(c driver.Session) {
			if err := c.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"expired": func(c driver.Session) {
			expired(t, rdb, "crowded", c)
			renew(t, s)
		},
	} {
		c := begin(t, rdb, "crowded")
		lockstest.Acquire(t, c, "three", "user/x", "user/y", "user/z")
		counts := counted(t, rdb, func() { end(c) })
		changes := 0
		for _, command := range changing {
			changes += counts[command]
		}
		if changes == 0 || changes > 20 || counts["hgetall"]+counts["hscan"] > 0 {
			t.Errorf("%s: %v; want some 20 changes at most for 3 keys", what, counts)
		}
		for i, r := range lockstest.Acquire(t, s, what, "user/x", "user/y", "user/z") {
			if r.Token == 0 {
				t.Fatalf("%s: its key %d is not free: %+v", what, i, r.Holder)
			}
			release(t, s, driver.Held{Key: []string{"user/x", "user/y", "user/z"}[i], Token: r.Token})
		}
	}
}
