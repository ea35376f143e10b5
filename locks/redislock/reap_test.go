package redislock

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
)

// A key that is taken from a session that is over is counted as its new holder's alone.
func TestAReplacedKeyBelongsToItsNewHolder(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	over, b := begin(t, rdb, "taken"), begin(t, rdb, "taken")
	lockstest.Grant(t, over, "k")
	expired(t, rdb, "taken", over)
	lockstest.Grant(t, b, "k")
	owned(t, rdb, "taken", "after a key was taken", b.ID()+" k")
}

// Keys of an expired session are freed by the renewals and openings of others, however many there are.
func TestAllThatASessionLeavesIsFreed(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	const many = 1500 // more than one call frees
	var keys []string
	for i := range many {
		keys = append(keys, fmt.Sprintf("k%04d", i))
	}
	left := func() (n int64) {
		t.Helper()
		holders, index := rdb.HLen(t.Context(), part("leaves", "holders")), rdb.ZCard(t.Context(), part("leaves", "index"))
		state := rdb.HKeys(t.Context(), part("leaves", "state"))
		must(t, holders, index, state)
		for _, field := range state.Val() {
			if strings.HasPrefix(field, "=") {
				n++
			}
		}
		return n + holders.Val() + index.Val()
	}
	known := func(s driver.Session) bool {
		t.Helper()
		return rdb.ZScore(t.Context(), part("leaves", "sessions"), s.ID()).Err() == nil || rdb.HExists(t.Context(), part("leaves", "terms"), s.ID()).Val()
	}
	over, b := begin(t, rdb, "leaves"), begin(t, rdb, "leaves")
	lockstest.Acquire(t, over, "all", keys...)
	expired(t, rdb, "leaves", over)
	renew(t, b, b)
	if n := left(); n != 0 || known(over) {
		t.Errorf("two renewals leave %d entries of %d keys; the session is known: %v", n, many, known(over))
	}
	over = begin(t, rdb, "leaves")
	lockstest.Grant(t, over, "k")
	expired(t, rdb, "leaves", over)
	begin(t, rdb, "leaves")
	if n := left(); n != 0 || known(over) {
		t.Errorf("a new session leaves %d entries; the session is known: %v", n, known(over))
	}
}

// An inconsistent entry frees no key and fails no call.
func TestEntriesThatDoNotFit(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	b := begin(t, rdb, "wrong")
	held := lockstest.Grant(t, b, "k")
	misled := func() driver.Session { // b's key is counted as its own too
		t.Helper()
		s := begin(t, rdb, "wrong")
		must(t, rdb.ZAdd(t.Context(), part("wrong", "index"), redis.Z{Member: "s" + s.ID() + " k"}))
		return s
	}
	if err := misled().Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	owned(t, rdb, "wrong", "after a close", b.ID()+" k")
	lockstest.Holds(t, b, held, true)

	expired(t, rdb, "wrong", misled())
	renew(t, b)
	owned(t, rdb, "wrong", "after a sweep", b.ID()+" k")
	lockstest.Holds(t, b, held, true)

	back := misled()
	restarted(t, rdb, "wrong")
	renew(t, back)
	entry, alone := rdb.HExists(t.Context(), part("wrong", "holders"), "k"), rdb.HExists(t.Context(), part("wrong", "state"), "=k")
	if must(t, entry, alone); !entry.Val() && !alone.Val() {
		t.Error("a session that came back freed another's key")
	}
	renew(t, b)

	must(t, rdb.HDel(t.Context(), part("wrong", "terms"), back.ID()), rdb.ZAdd(t.Context(), part("wrong", "index"), redis.Z{Member: "kunknown"}))
	renew(t, b)
	if infos, err := b.List(t.Context(), "", "", 10); err != nil || len(infos) != 1 || infos[0].Key != "k" {
		t.Errorf("listed: %+v, %v", infos, err)
	}
}
