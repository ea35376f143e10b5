package mistakes

import (
	"crypto/rand"
	"testing"
)

// The mistake: SETNX takes the lock, and EXPIRE, a second command, gives it an end. A process that dies between the two leaves
// a lock without an end. Nobody ever gets it again.
//
// Here one script grants the key to a session that has its expiry already. There is no moment in between.
func TestSetnxThenExpire(t *testing.T) {
	t.Parallel()
	rdb, key := redisClient(t), "naive:"+rand.Text()
	acquire := func(crash bool) bool {
		if !rdb.SetNX(t.Context(), key, "me", 0).Val() {
			return false
		}
		if !crash {
			rdb.Expire(t.Context(), key, quiet)
		}
		return true
	}
	if !acquire(true) {
		t.Fatal("the key is not free")
	}

	namespace := rand.Text()
	crashed(t, onRedis(t), namespace, "k")
	get(t, locker(t, onRedis(t), namespace, quiet), "k") // waits for the end of the dead session, here 1 s

	if acquire(false) || rdb.PTTL(t.Context(), key).Val() != -1 {
		t.Error("the naive lock is free, or will be: this test shows nothing")
	}
}
