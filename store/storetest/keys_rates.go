package storetest

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

var keyRateCases = []Case{
	{"Keys/Rate", keyRate},
	{"Keys/Clock", keyClock},
}

// passKeys makes the buckets of all keys those which they are after a while.
func (s *scene) passKeys(while time.Duration) {
	s.t.Helper()
	s.DB.Exec(s.t, "UPDATE {keys} SET bucket_full_at=bucket_full_at-?", int64(while))
	if _, is := sqlOf(s.Store); is {
		s.DB.Exec(s.t, "UPDATE {keys} SET look_at=look_at-? WHERE look_at>1", while.Microseconds())
	}
}

// Each key has a bucket of its own, and those behind it start when it lets them. Ready says when.
func keyRate(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.perKey(jobs.KeyLimits{Rate: jobs.Rate{Count: 3, Per: time.Minute}, Burst: 2}, "")
	k := s.keyed("a", "a", "a", "b", "a", "")
	s.starts("a burst", k[0], k[1], k[3], k[5])
	s.waitsForKey(k[2], "the rate for tasks with this key, 3/m")
	s.ends(k[0], k[1])
	other.starts("ends are no starts")
	is, err := b.Store.Ready(s.ctx(), asIs)
	pools, next := is.Pools, is.Next
	must(t, err)
	if in := time.Until(next); len(pools) > 0 || in < 15*time.Second || in > 25*time.Second {
		t.Errorf("pools %v are ready, and the next task in %v", pools, in)
	}
	s.passKeys(21 * time.Second)
	s.ready("21 seconds later", "work")
	other.starts("21 seconds later", k[2])
	s.ready("it has started")
	b1 := s.keyed("b")
	s.starts("the other key has one left", b1...)
	s.passKeys(10 * time.Minute)
	s.starts("ten minutes later", k[4])
	more := s.keyed("a", "a")
	s.starts("no more than the burst is saved", more[0])
}

// A bucket, and a time to look at a key, that were written by a clock which was set back since do not count.
func keyClock(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{Rate: jobs.Rate{Count: 1, Per: time.Minute}, Burst: 1}, "")
	k := s.keyed("a", "a")
	s.starts("the first", k[0])
	s.passKeys(-time.Hour)
	s.ready("an hour back", "work")
	s.starts("an hour back")
	s.ready("an hour back, and looked at")
	s.passKeys(61 * time.Second)
	s.ready("a minute later", "work")
	s.starts("a minute later", k[1])
}
