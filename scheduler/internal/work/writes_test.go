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
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// writes are those of a store, which tells of them if told is not nil, and how often it was looked at.
type writes struct {
	wrote atomic.Bool
	told  chan struct{}
	looks atomic.Int32
}

func (w *writes) write() {
	w.wrote.Store(true)
	wake.Send(w.told)
}

func (w *writes) Written() bool {
	w.looks.Add(1)
	return w.wrote.Swap(false)
}

func (w *writes) Await(ctx context.Context, most time.Duration) bool {
	if w.told != nil {
		wake.Wait(ctx, most, w.told)
	}
	return w.told != nil
}

// A write of the store makes the poll ask within 20 ms, and within 4 ms while tasks arrive, or where the store tells of it. Of writes that follow
// each other then it asks for the first at once, then each 10 to 14 ms, and once after the last. Where the store tells of writes it is looked at
// with the poll while there are none, and else all the time.
func TestAWriteWakesThePoll(t *testing.T) {
	for name, c := range map[string]struct {
		tells bool
		first time.Duration // ms after a write
		looks int32         // in 2 s
	}{
		"looked for": {false, 20, 100},
		"told of":    {true, 4, 5},
	} {
		t.Run(name, func(t *testing.T) { testAWriteWakesThePoll(t, c.tells, c.first, c.looks) })
	}
}

func testAWriteWakesThePoll(t *testing.T, tells bool, first time.Duration, looks int32) {
	synctest.Test(t, func(t *testing.T) {
		w := &writes{}
		if tells {
			w.told = wake.Signal()
		}
		st := &askable{Picky: replicatest.NewPicky(nil), began: time.Now(), writes: w}
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
		if n := w.looks.Load(); n > looks || n < looks/2 {
			t.Errorf("%d looks in 2 s, want up to %d", n, looks)
		}

		w.write()
		if got := asked(100 * time.Millisecond); len(got) != 1 || got[0] > first {
			t.Errorf("after one write it asked after %v ms, want once, within %d", got, first)
		}
		arrivedIn(s.work.feeder("p"))
		asked(50 * time.Millisecond)
		w.write()
		if got := asked(50 * time.Millisecond); len(got) != 1 || got[0] > 4 {
			t.Errorf("after one write while tasks arrive it asked after %v ms, want once, within 4", got)
		}
		go func() { // for 50 ms
			for range 50 {
				w.write()
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
