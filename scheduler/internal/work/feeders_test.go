package work

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// slowIn is a store whose claims in one pool take until answer is closed.
type slowIn struct {
	ledger.Store
	pool   string
	answer chan struct{}

	mu   sync.Mutex
	made map[string]int // claims that began, by pool
	slow int            // claims in that pool that are under way
}

func (s *slowIn) Claim(_ context.Context, c ledger.Claim) (ledger.Claimed, error) {
	s.add(c.Pool, 1)
	if c.Pool == s.pool {
		<-s.answer
	}
	s.add(c.Pool, 0)
	return ledger.Claimed{}, nil
}

func (s *slowIn) add(pool string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[pool] += n
	if pool == s.pool {
		s.slow += 2*n - 1
	}
}

func (s *slowIn) seen(pool string) (made, slow int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[pool], s.slow
}

func (s *slowIn) Look(context.Context, string, ledger.Look) (ledger.Seen, error) {
	return ledger.Seen{}, nil
}

// A claim that takes long in a pool that was removed does not delay the start of a new pool. It ends before the same pool claims again, and before all end.
func TestARemovedPoolHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &slowIn{Store: &memstore.Store{Database: memstore.New()}, pool: "p", answer: make(chan struct{}), made: map[string]int{}}
		r := replicaOn(t, st, replicatest.NewBlocked(1))
		r.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
		r.members.SetLoaded()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.work.feed(ctx) }()
		replan := func(pools ...string) {
			t.Helper()
			set := jobs.Set{Pools: map[string]jobs.Pool{}}
			for _, name := range pools {
				set.Pools[name] = jobs.Pool{Handler: replicatest.NewBlocked(1), Workers: 4}
			}
			p, err := plan.New(set, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.work.Replan(p)
			synctest.Wait()
		}
		is := func(what, pool string, made, slow int) {
			t.Helper()
			if gotMade, gotSlow := st.seen(pool); gotMade != made || gotSlow != slow {
				t.Errorf("%s: pool %s has begun %d claims, and p has %d under way; want %d and %d", what, pool, gotMade, gotSlow, made, slow)
			}
		}
		r.work.Wake("p")
		synctest.Wait()
		is("before", "p", 1, 1)
		replan("q")
		r.work.Wake("q")
		synctest.Wait()
		is("while the claim of the pool that was removed is under way", "q", 1, 1)
		replan("p", "q")
		is("while p, which has come back, has its old claim under way", "p", 1, 1)
		replan("q")
		replan("p")
		close(st.answer)
		synctest.Wait()
		is("when it has ended", "p", 2, 0)

		st.answer = make(chan struct{})
		r.work.Wake("p")
		synctest.Wait()
		stop()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("feed has ended while a claim was under way")
		default:
		}
		close(st.answer)
		<-ended
	})
}
