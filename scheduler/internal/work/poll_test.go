package work

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// askable is a store that notes when it is asked which pools have work.
type askable struct {
	*replicatest.Picky
	writes ledger.Writes
	answer func(n int) (pools []string, next time.Time, err error) // to the n-th question, from 0

	mu    sync.Mutex
	began time.Time
	asked []time.Duration
}

func (p *askable) Writes() ledger.Writes { return p.writes }

func (p *askable) Ready(context.Context, ledger.Judge) (is ledger.Ready, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, time.Since(p.began)/time.Millisecond)
	if p.answer != nil {
		is.Pools, is.Next, err = p.answer(len(p.asked) - 1)
	}
	return is, err
}

// each returns the times from first up to last, so far apart, in milliseconds.
func each(apart, first, last time.Duration) (at []time.Duration) {
	for ; first <= last; first += apart {
		at = append(at, first)
	}
	return at
}

// arrivedIn makes it look as if tasks of a pool had been taken that the poll had found.
func arrivedIn(f *feeder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.arrival = time.Now()
}

// The poll asks each 15 ms for two seconds after tasks were taken that it had found, each 50 ms while there is work, backs off up to
// half a second while there is none, and asks exactly when the next waiting task is due. Tasks that this replica cannot start, takes
// without being told, or has no pool for are no work. Where a write of the store wakes it, none come unseen.
func TestWhenThePollAsks(t *testing.T) {
	idle := []time.Duration{50, 150, 350, 750, 1250, 1750, 2250}
	arrivals, busy := slices.Concat(each(15, 50, 2000), []time.Duration{2030, 2090, 2210, 2450}), each(50, 50, 2450)
	arrived := func(s *replica) { arrivedIn(s.work.feeder("p")) }
	once := func(n int) ([]string, time.Time, error) {
		if n == 2 {
			return []string{"p"}, time.Time{}, nil
		}
		return nil, time.Time{}, nil
	}
	always := func(pools ...string) func(int) ([]string, time.Time, error) {
		return func(int) ([]string, time.Time, error) { return pools, time.Time{}, nil }
	}
	for what, c := range map[string]struct {
		answer func(n int) ([]string, time.Time, error)
		before func(s *replica)
		asked  []time.Duration // after so many milliseconds
		woken  bool            // the pool p
	}{
		"there is nothing to do":         {nil, nil, idle, false},
		"there is work":                  {always("p"), nil, busy, true},
		"tasks that it found were taken": {nil, arrived, arrivals, false},
		"tasks that it found were taken, and a write wakes it": {nil, func(s *replica) {
			arrived(s)
			s.work.store.(*askable).writes = &writes{}
		}, idle, false},
		"its feeder takes it without being told": {always("p"), func(s *replica) { s.work.feeder("p").more = true }, idle, true},
		"its feeder takes what arrives without being told": {always("p"), func(s *replica) {
			arrived(s)
			s.work.feeder("p").more = true
		}, idle, true},
		"only other replicas have the pool": {always("q"), nil, idle, false},
		"one of the pools is known":         {always("q", "p", "r"), nil, busy, true},
		"there is no room to start any of it": {always("p"), func(s *replica) {
			s.work.shortages.pools = map[string]*shortage{"p": {err: replicatest.ErrRefused, until: time.Now().Add(time.Hour)}}
		}, idle, true},
		"claims get nothing of it": {always("p"), func(s *replica) {
			s.work.feeder("p").fruitless, s.work.feeder("p").notBefore = 1, time.Now().Add(time.Hour)
		}, idle, false},
		"there was some, once": {once, nil, []time.Duration{50, 150, 350, 400, 500, 700, 1100, 1600, 2100}, true},
		"the next task is due between two questions": {func(n int) ([]string, time.Time, error) {
			if n == 3 {
				return nil, time.Now().Add(123 * time.Millisecond), nil
			}
			return nil, time.Time{}, nil
		}, nil, []time.Duration{50, 150, 350, 750, 873, 1119, 1611, 2111}, false},
		"the next task is due later": {func(n int) ([]string, time.Time, error) {
			return nil, time.Now().Add(time.Hour), nil
		}, nil, idle, false},
		"the next task is just due": {func(n int) ([]string, time.Time, error) {
			if n < 3 {
				return nil, time.Now().Add(-time.Second), nil
			}
			return nil, time.Time{}, nil
		}, nil, []time.Duration{50, 60, 70, 80, 100, 140, 220, 380, 700, 1200, 1700, 2200}, false},
		"the store is away": {func(n int) ([]string, time.Time, error) {
			return []string{"p"}, time.Now(), fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable)
		}, nil, []time.Duration{50, 550, 1050, 1550, 2050}, false},
		"its session is over": {always("p"), func(s *replica) {
			s.assume(&membership.Session{ID: "session", Trust: boottime.Awake()})
		}, nil, false},
		"its session was over for a moment": {always("p"), func(s *replica) {
			ses := s.work.member.Session()
			s.assume(&membership.Session{ID: "session", Trust: boottime.Awake()})
			time.AfterFunc(time.Second, func() { s.assume(ses) })
		}, busy[20:], true},
		"it waits for the lock service": {always("p"), func(s *replica) {
			s.locks.Locks, s.locks.Required = replicatest.Mute{}, true
			s.locks.Failed(replicatest.ErrRefused)
		}, nil, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &askable{Picky: replicatest.NewPicky(nil), answer: c.answer, began: time.Now()}
				s := replicaOn(t, st, replicatest.Blocked{})
				s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
				s.members.Clock().Observe(boottime.Awake(), time.Now())
				s.members.SetLoaded()
				if c.before != nil {
					c.before(s)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); s.work.poll(ctx) }()
				time.Sleep(2499 * time.Millisecond)
				stop()
				<-ended
				if diff := cmp.Diff(c.asked, st.asked); diff != "" {
					t.Errorf("asked after (-want +got):\n%s", diff)
				}
				if woken := len(s.work.feeder("p").wake) > 0; woken != c.woken {
					t.Errorf("the pool is claimed from: %t, want %t", woken, c.woken)
				}
				if away := !s.storeAnswers(); away != (what == "the store is away") {
					t.Errorf("the store is away: %t", away)
				}
			})
		})
	}
}

// Tasks that are taken after the poll has woken the feeder are an arrival, and those that it was told of are none.
func TestArrivals(t *testing.T) {
	s := replicaOn(t, &askable{Picky: replicatest.NewPicky(nil)}, replicatest.Blocked{})
	f := s.work.feeder("p")
	for _, c := range []struct {
		what    string
		polled  bool
		more    bool // the claim before left some behind
		full    bool // the limits let no more start
		tasks   int
		arrival bool
	}{
		{"told of", false, false, false, 3, false},
		{"found, and taken by another replica", true, false, false, 0, false},
		{"told of, after others were found", false, false, false, 3, false},
		{"found, and were there before", true, true, false, 3, false},
		{"found, and waited for the limits", true, false, true, 3, false},
		{"found", true, false, false, 3, true},
	} {
		if f.more = c.more; c.polled {
			f.forPoll()
		}
		f.noteArrival(ledger.Claimed{Tasks: make([]ledger.Started, c.tasks), Limited: c.full})
		if got := !f.arrival.IsZero(); got != c.arrival {
			t.Errorf("%s: an arrival: %t", c.what, got)
		}
	}
}

// A pool with work that this configuration does not have is reported to unrunnable: perhaps no replica has it.
func TestAPoolThatIsNotKnownIsNoted(t *testing.T) {
	for pool, noted := range map[string]bool{"p": false, "q": true} {
		synctest.Test(t, func(t *testing.T) {
			st := &askable{Picky: replicatest.NewPicky(nil), began: time.Now()}
			st.answer = func(int) ([]string, time.Time, error) { return []string{pool}, time.Time{}, nil }
			s := replicaOn(t, st, replicatest.Blocked{})
			s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			s.work.poll(ctx)
			if got := len(s.work.wakeUnrunnable) > 0; got != noted {
				t.Errorf("pool %s is looked into: %t", pool, got)
			}
		})
	}
}
