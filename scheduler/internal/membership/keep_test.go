package membership

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// distant is a store that takes long to answer a heartbeat, and stops answering after some.
type distant struct {
	*memstore.Store
	takes   atomic.Int64 // a time.Duration
	answers int32
	asked   atomic.Int32
	quick   atomic.Int32 // until then it answers at once
}

func (d *distant) Beat(ctx context.Context, session string) (time.Time, error) {
	takes := time.Duration(d.takes.Load())
	switch n := d.asked.Add(1); {
	case n > d.answers:
		takes = time.Hour
	case n <= d.quick.Load():
		takes = 0
	}
	if !wake.Wait(ctx, takes, nil) {
		return time.Time{}, jobs.ErrUnavailable
	}
	return d.Store.Beat(ctx, session)
}

// keeping runs Keep on a store that answers so many heartbeats, each in a third of the session's ttl.
func keeping(t *testing.T, answers int32) (*Member, *distant) {
	st := &distant{Store: newStore(), answers: answers}
	s := memberOn(t, st)
	if err := s.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	st.takes.Store(int64(s.opt.SessionTTL * 3 / 10))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Keep(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return s, st
}

// A slow answer of the store is waited for: the session is trusted all the time.
func TestBeatsAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := keeping(t, math.MaxInt32)
		for range 100 {
			time.Sleep(s.opt.SessionTTL / 10)
			if !s.session.Load().Trusted() {
				t.Fatal("not trusted, though each beat is answered in a third of the session's ttl")
			}
		}
	})
}

// An answer within a fifth of the session's ttl is waited for, also after answers that came at once.
func TestABeatIsWaitedForAfterQuickOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := keeping(t, math.MaxInt32)
		st.takes.Store(int64(s.opt.SessionTTL/5 - 1))
		st.quick.Store(5)
		for range 300 {
			time.Sleep(s.opt.SessionTTL / 100)
			if s.session.Load().steady.IsZero() {
				t.Fatalf("beat %d was given up", st.asked.Load())
			}
		}
		if st.asked.Load() < 8 {
			t.Errorf("%d beats", st.asked.Load())
		}
	})
}

// A store that answers no more is asked twice before the session's trust ends.
func TestBeatsAreTriedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const answers = 10
		s, st := keeping(t, answers)
		for s.session.Load().Trusted() {
			time.Sleep(s.opt.SessionTTL / 100)
		}
		if n := st.asked.Load() - answers; n < 2 {
			t.Errorf("asked %d times", n)
		}
	})
}
