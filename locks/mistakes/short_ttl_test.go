package mistakes

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/await"
)

// The mistake: the lock has a ttl of its own, and the work takes longer. The next one begins while the first still works.
//
// Here the session is renewed for as long as the process lives, so the work may take as long as it takes; and a process that
// cannot renew is told before its key is free.
func TestTTLShorterThanTheWork(t *testing.T) {
	t.Parallel()
	rdb, key := redisClient(t), "naive:"+rand.Text()
	const naive = 50 * time.Millisecond
	acquire := func(who string) bool { return rdb.SetNX(t.Context(), key, who, naive).Val() }
	if !acquire("a") {
		t.Fatal("the key is not free")
	}
	await.Until(t, "b gets the naive lock while a works, which has released nothing", func() bool { return acquire("b") })

	const ttl = 3 * time.Second
	namespace := rand.Text()
	a, b := locker(t, onRedis(t), namespace, ttl), locker(t, onRedis(t), namespace, quiet)
	lease := get(t, a, "k")
	end := lease.Deadline().Add(ttl / 2) // well after the first ttl
	await.Until(t, "the work takes longer than the ttl", func() bool {
		busy(t, b, "k")
		return time.Now().After(end)
	})
	if err := lease.Check(); err != nil {
		t.Error(err)
	}
	busy(t, b, "k")
}
