package work

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// strangers is a store whose claims find tasks that this replica cannot run, more than it remembers.
type strangers struct {
	ledger.Store
	claims int
}

func (s *strangers) Claim(context.Context, ledger.Claim) (ledger.Claimed, error) {
	s.claims++
	return ledger.Claimed{More: true, Foreign: []jobs.Task{{Job: "of nobody here"}}}, nil
}

func (*strangers) Look(context.Context, string, ledger.Look) (ledger.Seen, error) {
	return ledger.Seen{Work: &ledger.Window{}}, nil
}

// A claim that got nothing, and can learn nothing, is not followed by another one before the feeder is woken.
func TestClaimsForNothingEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &strangers{Store: &memstore.Store{Database: memstore.New()}}
		s := replicaOn(t, st, replicatest.Blocked{})
		s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(time.Hour)})
		f := s.work.feeder("p")
		for n := range skipMost {
			f.skipJobs = append(f.skipJobs, fmt.Sprint(n))
		}
		wake.Send(f.wake)
		for n := 0; len(f.wake) > 0; n++ {
			if n == 3 {
				t.Fatal("each claim wakes the next one")
			}
			<-f.wake
			for f.claim(t.Context()) {
			}
		}
		if st.claims != 1 {
			t.Errorf("it claimed %d times", st.claims)
		}
	})
}

// oneTask is a store whose first claim finds a task, and runs while other work takes all workers.
type oneTask struct {
	ledger.Store
	take func()
}

func (s *oneTask) Claim(context.Context, ledger.Claim) (ledger.Claimed, error) {
	if s.take == nil {
		return ledger.Claimed{}, nil
	}
	s.take()
	s.take = nil
	return ledger.Claimed{Tasks: []ledger.Started{{Task: &jobs.Task{ID: "t", Pool: "p", Token: 1}}}}, nil
}

// A claimed task starts as soon as any worker is free, whatever pool that worked for before.
func TestWhatIsClaimedTakesTheNextFreeWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &oneTask{Store: &memstore.Store{Database: memstore.New()}}
		work := replicatest.NewBlocked(1)
		s := replicaOn(t, st, work)
		s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(time.Hour)})
		st.take = func() { s.work.slots.take("p", 4) }
		f := s.work.feeder("p")
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer close(work.End)
		defer cancel()
		go f.run(ctx)
		wake.Send(f.wake)
		synctest.Wait()
		if !s.work.register.waits("t") || len(work.Began) > 0 {
			t.Fatal("it does not wait for a worker")
		}
		s.work.slots.give("p", 1)
		synctest.Wait()
		if len(work.Began) != 1 {
			t.Error("it waits beside a free worker")
		}
	})
}

// tardy is a lock service whose answers reach this process after it has stopped waiting for them, as happens
// when the process gets no processor time meanwhile.
type tardy struct{ membership.Locks }

func (l tardy) Acquire(ctx context.Context, requests ...locks.Request) ([]*locks.Lease, error) {
	got, err := l.Locks.Acquire(ctx, requests...)
	<-ctx.Done()
	return got, err
}

// A claim lock that was granted too late is released like any other. Else it would stay held for as long as
// this replica lives, and each claim of all replicas would wait for it.
func TestAClaimLockThatCameLateIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		mine, other := replicatest.LockerOf(t, service), replicatest.LockerOf(t, service)
		s := replicaOn(t, &turns{Store: &memstore.Store{Database: memstore.New()}, take: []time.Duration{0}}, replicatest.Blocked{})
		s.locks.Locks = tardy{mine}
		s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(time.Hour)})
		s.work.feeder("p").claim(t.Context())
		attempts, err := other.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: "sys/pool/p"})
		if err != nil || attempts[0].Lease == nil {
			t.Errorf("the claim lock is not free: %v, %+v", err, attempts)
		}
	})
}

// outdating is a store whose pools are all governed otherwise.
type outdating struct{ *memstore.Store }

func (outdating) Claim(context.Context, ledger.Claim) (ledger.Claimed, error) {
	return ledger.Claimed{}, ledger.ErrOutdated
}

// A replica whose claim is refused for another definition of the pool asks which definition governs, and claims nothing in
// a pool that no configuration has.
func TestARefusedClaimAsksWhatGoverns(t *testing.T) {
	s := replicaOn(t, outdating{&memstore.Store{Database: memstore.New()}}, replicatest.Blocked{})
	s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(time.Hour)})
	f := s.work.feeder("p")
	if again := f.claim(t.Context()); again || len(s.wakeGovern) != 1 {
		t.Errorf("claims again: %v, asks: %d", again, len(s.wakeGovern))
	}
	if wake, work := f.forPoll(); wake || work {
		t.Error("it looks at the pool as before")
	}
	<-s.wakeGovern
	f.goBy(f.pool.Under(ledger.OtherPool{Name: "p"}))
	if again := f.claim(t.Context()); again || len(s.wakeGovern) != 0 {
		t.Error("it claims in a retired pool")
	}
}
