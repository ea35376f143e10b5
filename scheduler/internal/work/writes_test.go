package work

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// A write of the store makes the poll ask within 20 ms, and within 4 ms while tasks arrive. Of writes that follow each other then it
// asks for the first at once, then each 10 to 14 ms, and once after the last.
func TestAWriteWakesThePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wrote atomic.Bool
		st := &askable{Picky: replicatest.NewPicky(nil), began: time.Now(), written: func() bool { return wrote.Swap(false) }}
		s := replicaOn(t, st, replicatest.Blocked{})
		s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
		s.members.Clock().Observe(boottime.Awake(), time.Now())
		s.members.SetLoaded()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.work.poll(ctx)
		go s.work.watchWrites(ctx)
		asked := func(d time.Duration) []time.Duration {
			time.Sleep(d)
			st.mu.Lock()
			defer st.mu.Unlock()
			got := st.asked
			st.asked, st.began = nil, time.Now()
			return got
		}
		asked(1999 * time.Millisecond) // the poll has slowed down, and asks 250 ms later

		wrote.Store(true)
		if got := asked(100 * time.Millisecond); len(got) != 1 || got[0] > 20 {
			t.Errorf("after one write it asked after %v ms, want once, within 20", got)
		}
		arrivedIn(s.work.feeder("p"))
		asked(50 * time.Millisecond)
		wrote.Store(true)
		if got := asked(50 * time.Millisecond); len(got) != 1 || got[0] > 4 {
			t.Errorf("after one write while tasks arrive it asked after %v ms, want once, within 4", got)
		}
		go func() { // for 50 ms
			for range 50 {
				wrote.Store(true)
				time.Sleep(time.Millisecond)
			}
		}()
		got := asked(100 * time.Millisecond)
		for i := 1; i < len(got); i++ {
			if apart := got[i] - got[i-1]; apart < 10 || apart > 14 {
				t.Errorf("while the store is written it asks %d ms after it asked before, want 10 to 14: %v", apart, got)
			}
		}
		if len(got) < 4 || got[0] > 4 || got[len(got)-1] < 49 {
			t.Errorf("while the store is written for 50 ms it asked after %v ms, want at once, and after the last write", got)
		}
	})
}
