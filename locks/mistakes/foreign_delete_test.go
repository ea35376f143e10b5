package mistakes

import (
	"crypto/rand"
	"errors"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// The mistake: release is DEL, whoever holds the key. A process whose lock has expired deletes that of its successor, and a
// third one comes in beside it.
//
// Here a release names its session and its token, and the server frees nothing else.
func TestForeignDelete(t *testing.T) {
	t.Parallel()
	rdb, key := redisClient(t), "naive:"+rand.Text()
	acquire := func(who string) bool { return rdb.SetNX(t.Context(), key, who, quiet).Val() }
	if !acquire("a") {
		t.Fatal("the key is not free")
	}
	rdb.PExpire(t.Context(), key, 0) // a has worked for too long
	if !acquire("b") {
		t.Fatal("the lock has not expired")
	}
	rdb.Del(t.Context(), key) // a is done
	if !acquire("c") {
		t.Error("b is still protected: this test shows nothing")
	}

	namespace := rand.Text()
	a, b, c := locker(t, onRedis(t), namespace, quiet), locker(t, onRedis(t), namespace, quiet), locker(t, onRedis(t), namespace, quiet)
	first := get(t, a, "k")
	if freed, err := a.ForceRelease(t.Context(), "k", first.Token()); !freed || err != nil { // as its expiry would
		t.Fatalf("%v, %v", freed, err)
	}
	second := get(t, b, "k")
	if err := first.Release(t.Context()); !errors.Is(err, locks.ErrLost) {
		t.Errorf("the release of a lost lease: %v, want ErrLost", err)
	}
	busy(t, c, "k")
	session, err := onRedis(t).Open(t.Context(), driver.Open{Namespace: namespace, TTL: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close(t.Context())
	if err := session.Release(t.Context(), []driver.Held{{Key: second.Key(), Token: second.Token()}}); err != nil {
		t.Errorf("a release of what another session holds: %v", err)
	}
	busy(t, c, "k")
	if err := second.Check(); err != nil {
		t.Error(err)
	}
}
