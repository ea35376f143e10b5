package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// slow is a store whose heartbeats take a while, and that counts deciding transactions.
type slow struct {
	ledger.Store
	beat    atomic.Int64 // nanoseconds
	decides atomic.Int64
	refuse  atomic.Bool // Assert fails
}

func (s *slow) Beat(ctx context.Context, session string) (time.Time, error) {
	// The database reads its clock first and answers late: the worst case for the caller.
	at, err := s.Store.Beat(ctx, session)
	linger(ctx, time.Duration(s.beat.Load()))
	return at, err
}

func (s *slow) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	s.decides.Add(1)
	return s.Store.Decide(ctx, d)
}

func (s *slow) Assert(ctx context.Context, session string, d ledger.Definitions) (ledger.Assertion, error) {
	if s.refuse.Load() {
		return ledger.Assertion{}, errors.New("refused by the test")
	}
	return s.Store.Assert(ctx, session, d)
}

func linger(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func everySecond(h jobs.Handler) jobs.Set {
	return jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "* * * * * *", Handler: h}}}
}

func TestASlowBeatIsNoStepOfTheClock(t *testing.T) {
	t.Parallel()
	for _, took := range []time.Duration{200 * time.Millisecond, 3 * time.Second} {
		t.Run(took.String(), func(t *testing.T) {
			t.Parallel()
			st := sqlite(t).open(t)
			ran := &starts{}
			each := &slow{Store: st.Sides().Replica}
			r := start(t, each, nil, everySecond(ran), scheduler.Options{ID: "a", SessionTTL: 12 * time.Second})
			await.Until(t, "it works", func() bool { return ran.count() >= 1 })
			each.beat.Store(int64(took))
			had, decides := ran.count(), each.decides.Load()
			await.Until(t, "eight due times later", func() bool {
				if c := r.Health()[2]; !c.Ready {
					t.Errorf("after a slow beat: %s", c.Detail)
				}
				return t.Failed() || ran.count() >= had+8
			})
			if n := each.decides.Load() - decides; n > 40 {
				t.Errorf("%d deciding transactions for eight due times", n)
			}
			covered(t, ledgerOf(t, st, "j"))
		})
	}
}

// A peer is judged by its own session ttl if that is longer.
func TestAPeerWithALongerTTLLives(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	st := db.open(t)
	began := make(chan struct{}, 2)
	h := does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
		began <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	patient := start(t, db.open(t), nil, pool(h, nil), scheduler.Options{ID: "patient", SessionTTL: 30 * time.Second, DrainTimeout: time.Millisecond, StopGrace: time.Millisecond})
	id := enqueue(t, st, patient, 1)[0]
	<-began
	hasty := start(t, db.open(t), nil, pool(h, nil), scheduler.Options{ID: "hasty", SessionTTL: time.Second})
	await.Until(t, "the hasty one is there", func() bool { return hasty.Health()[0].Ready })
	// It sends a heartbeat each 10 s; the hasty one looks four times a second for three times its own ttl.
	linger(t.Context(), 3*time.Second)
	if live := peers(t, st); len(live) != 2 {
		t.Errorf("live are %+v", live)
	}
	if got := task(t, st, id); got.State != jobs.StateRunning || got.Replica != "patient" || got.Lost != 0 {
		t.Errorf("the task is %s on %s, lost %d times", got.State, got.Replica, got.Lost)
	}
}

// An assertion that fails is repeated: no other replica would govern.
func TestGoverningIsRepeatedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	older, newer := &starts{}, &starts{}
	older1 := everySecond(older)
	each := &slow{Store: db.open(t).Sides().Replica}
	start(t, each, nil, older1, scheduler.Options{ID: "older", SessionTTL: 2 * time.Second})
	await.Until(t, "the older one runs it", func() bool { return older.count() >= 1 })
	changed := everySecond(newer)
	j := changed.Jobs["j"]
	j.Timeout = time.Minute
	changed.Jobs["j"] = j
	b := start(t, db.open(t), nil, changed, scheduler.Options{ID: "newer", SessionTTL: 2 * time.Second})
	await.Until(t, "the newer one runs it", func() bool { return newer.count() >= 1 })
	each.refuse.Store(true)
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	st := db.open(t)
	await.Until(t, "it is gone", func() bool { return len(peers(t, st)) == 1 })
	linger(t.Context(), 1500*time.Millisecond) // it tries, in vain
	each.refuse.Store(false)
	had := older.count()
	await.Until(t, "the older one takes over", func() bool { return older.count() >= had+2 })
}

// hanging is a lock service that does not answer until the caller gives up.
type hanging struct {
	scheduler.Locks
	hangs atomic.Bool
}

func (h *hanging) TryAcquire(ctx context.Context, requests ...locks.Request) ([]locks.Attempt, error) {
	if h.hangs.Load() {
		linger(ctx, 2*time.Second) // its call timeout
		return nil, locks.ErrUnavailable
	}
	return h.Locks.TryAcquire(ctx, requests...)
}

func (h *hanging) Acquire(ctx context.Context, requests ...locks.Request) ([]*locks.Lease, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return nil, fmt.Errorf("%w: %w", locks.ErrUnavailable, ctx.Err())
	}
	return h.Locks.Acquire(ctx, requests...)
}

func TestALockServiceThatHangsDelaysNothingElse(t *testing.T) {
	db := sqlite(t)
	st := db.open(t)
	ran := &starts{}
	lk := &hanging{Locks: locker(t, memlock.New())}
	set := pool(ran, nil)
	set.Jobs = map[string]jobs.Job{"j": {Schedule: "* * * * * *", Handler: ran}}
	r := start(t, db.open(t), lk, set, scheduler.Options{ID: "a", SessionTTL: 2 * time.Second, LockService: "x"})
	await.Until(t, "it works", func() bool { return ran.count() >= 1 })
	lk.hangs.Store(true)
	if _, err := st.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "dead", Host: "elsewhere", LockService: scheduler.Fingerprint("x")}); err != nil {
		t.Fatal(err)
	}
	enqueue(t, st, r, 5)
	await.Until(t, "the dead one is expired", func() bool { return len(peers(t, st)) == 1 })
	had := len(ledgerOf(t, st, "j"))
	await.Until(t, "three more due times are decided", func() bool { return len(ledgerOf(t, st, "j")) >= had+3 })
	for _, row := range ledgerOf(t, st, "j")[had:] {
		if late := row.DecidedAt.Sub(row.At); late > time.Second {
			t.Errorf("%v was decided %v late", row.At, late)
		}
	}
	ran.onlyOnce(t)
}
