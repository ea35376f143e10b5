package mistakes

import (
	"crypto/rand"
	"testing"
)

// The mistake: release looks first, GET, whether the value is its own, and then deletes, DEL. Between the two the lock may
// expire and become another's, which is deleted.
//
// Here the server compares and frees in one script. What the process knew before does not matter.
func TestGetThenDelete(t *testing.T) {
	t.Parallel()
	rdb, key := redisClient(t), "naive:"+rand.Text()
	acquire := func(who string) bool { return rdb.SetNX(t.Context(), key, who, quiet).Val() }
	if !acquire("a") {
		t.Fatal("the key is not free")
	}
	if rdb.Get(t.Context(), key).Val() != "a" {
		t.Fatal("not held by a")
	}
	rdb.PExpire(t.Context(), key, 0) // now it expires
	if !acquire("b") {
		t.Fatal("the lock has not expired")
	}
	rdb.Del(t.Context(), key) // since it was a's
	if !acquire("c") {
		t.Error("b is still protected: this test shows nothing")
	}

	namespace := rand.Text()
	a, b := locker(t, onRedis(t), namespace, quiet), locker(t, onRedis(t), namespace, quiet)
	first := get(t, a, "k")
	if freed, err := b.ForceRelease(t.Context(), "k", first.Token()); !freed || err != nil { // as its expiry would
		t.Fatalf("%v, %v", freed, err)
	}
	second := get(t, b, "k")
	if err := first.Check(); err != nil {
		t.Fatalf("%v: a knows already, so this is another interleaving", err)
	}
	_ = first.Release(t.Context())
	busy(t, locker(t, onRedis(t), namespace, quiet), "k")
	if err := second.Check(); err != nil {
		t.Error(err)
	}
}
