package redislock

import (
	"sync/atomic"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
)

// evicted is what a renewal says.
func evicted(t *testing.T, s driver.Session, sample ...driver.Held) bool {
	t.Helper()
	gone, err := s.Renew(t.Context(), sample)
	if err != nil {
		t.Fatal(err)
	}
	return gone
}

func evict(t *testing.T, s driver.Session, h driver.Held) {
	t.Helper()
	if ok, err := s.Evict(t.Context(), h.Key, h.Token); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

// The renewal after an eviction tells it, once, in one call, and one without an eviction tells nothing.
func TestARenewalTellsOfAnEviction(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	a, b := begin(t, rdb, "told"), begin(t, rdb, "told")
	one, two, kept := lockstest.Grant(t, a, "one"), lockstest.Grant(t, a, "two"), lockstest.Grant(t, a, "kept")
	if evicted(t, a, one, two, kept) || evicted(t, b) {
		t.Error("told before anything was evicted")
	}
	for _, h := range []driver.Held{one, two} {
		evict(t, b, h)
		if evicted(t, b) {
			t.Error("told to the session that evicts")
		}
		if got := counted(t, rdb, func() {
			if !evicted(t, a, kept) {
				t.Errorf("the eviction of %s is not told", h.Key)
			}
		}); got["evalsha"] != 1 {
			t.Errorf("%v", got)
		}
	}
	for range 2 {
		if evicted(t, a, kept) {
			t.Error("told again")
		}
	}
	if there := rdb.HExists(t.Context(), part("told", "state"), "~"+a.ID()); there.Err() != nil || there.Val() {
		t.Errorf("the mark is left: %v", there)
	}
}

// A key that was deleted at the server by hand is found where it is in the sample.
func TestARenewalFindsADeletedKeyInItsSample(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	a := begin(t, rdb, "deleted")
	pair(t, a, "first")
	gone, kept := lockstest.Grant(t, a, "gone"), lockstest.Grant(t, a, "kept")
	must(t, rdb.HDel(t.Context(), part("deleted", "state"), "=gone"))
	if evicted(t, a, kept) || !evicted(t, a, kept, gone) {
		t.Error("a sample tells of what is not in it, or not of what is")
	}
	queued(t, begin(t, rdb, "deleted"), driver.Want{Key: "kept"}) // that makes an entry of the key
	must(t, rdb.HDel(t.Context(), part("deleted", "holders"), "kept"))
	if !evicted(t, a, kept) {
		t.Error("a deleted entry is not found")
	}
}

// An answer that is lost does not lose the notice.
func TestANoticeOutlivesALostAnswer(t *testing.T) {
	t.Parallel()
	admin := unused(t)
	var deaf atomic.Bool
	rdb := deafClient(t, admin.Options().Addr, "evalsha", &deaf)
	a, b := begin(t, rdb, "lost"), begin(t, admin, "lost")
	renew(t, a) // from now on the server has the script
	evict(t, b, lockstest.Grant(t, a, "k"))
	for range 2 {
		deaf.Store(true)
		got := counted(t, admin, func() {
			if _, err := a.Renew(t.Context(), nil); err == nil {
				t.Error("the answer was not lost")
			}
		})
		deaf.Store(false)
		if got["evalsha"] == 0 || got["zadd"] == 0 {
			t.Errorf("the server did not renew: %v", got)
		}
	}
	if !evicted(t, a) || evicted(t, a) {
		t.Error("the notice is lost, or told twice")
	}
}

// A session that brings back what has a later holder is told with its renewal.
func TestARenewalTellsWhatWasNotBroughtBack(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	a, b := begin(t, rdb, "renewed"), begin(t, rdb, "renewed")
	early := lockstest.Grant(t, a, "k")
	evict(t, b, early)
	lockstest.Grant(t, b, "k")
	must(t, rdb.FlushAll(t.Context()))
	renew(t, b)
	if !evicted(t, a) || evicted(t, a) {
		t.Error("not told, or told twice")
	}
}

// A mark ends with its session.
func TestAMarkEndsWithItsSession(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	b := begin(t, rdb, "ends")
	closed, dead := begin(t, rdb, "ends"), begin(t, rdb, "ends")
	for _, s := range []driver.Session{closed, dead} {
		evict(t, b, lockstest.Grant(t, s, "k"))
	}
	if err := closed.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	expired(t, rdb, "ends", dead)
	renew(t, b)
	for _, s := range []driver.Session{closed, dead} {
		if there := rdb.HExists(t.Context(), part("ends", "state"), "~"+s.ID()); there.Err() != nil || there.Val() {
			t.Errorf("left: %v", there)
		}
	}
}
