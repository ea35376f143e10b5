package work

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// triedKeys is a Locker that notes which keys were tried.
type triedKeys struct {
	*locks.Locker
	keys []string
}

func (r *triedKeys) TryAcquire(ctx context.Context, requests ...locks.Request) ([]locks.Attempt, error) {
	for _, request := range requests {
		r.keys = append(r.keys, request.Key)
	}
	return r.Locker.TryAcquire(ctx, requests...)
}

// A key that is busy without a known holder, since others of this replica wait for it, is no sign that the lock service does not answer.
func TestBusyBehindOthersOfTheReplica(t *testing.T) {
	out, busy := tried{held: map[string][]heldLock{}, busy: map[string]string{}}, map[string]string{}
	e := &Executor{releases: newReleases(nil, nil)}
	task := wanted{task: jobs.Task{ID: "t"}, locks: []plan.Lock{{Name: "c", Request: locks.Request{Key: "user/c"}}}}
	e.sortOut(out, busy, task, []locks.Attempt{{Err: fmt.Errorf("%w: user/c", locks.ErrBusy)}})
	const want = "waits for lock c, for which others of this replica wait"
	if out.busy["t"] != want || busy["user/c"] != want {
		t.Errorf("%q, and of the key %q; want %q", out.busy["t"], busy["user/c"], want)
	}
}

// Of several keys the one that is waited for is found, also behind a shared one that would be granted again, and its holder is
// named. After that no other key is tried.
func TestObstacle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		other, lk := replicatest.LockerOf(t, service), &triedKeys{Locker: replicatest.LockerOf(t, service)}
		held, err := other.Acquire(t.Context(), locks.Request{Key: "c", Meta: "the backup"})
		if err != nil {
			t.Fatal(err)
		}
		e := &Executor{jobLocks: lk, releases: newReleases(lk, nil)}
		requests := []locks.Request{{Key: "user/a", Meta: "me"}, {Key: "user/b", Mode: locks.Shared, Meta: "me"}, {Key: "user/c", Meta: "me"}}
		done := make(chan error)
		go func() {
			leases, err := lk.Acquire(t.Context(), requests...)
			if err == nil {
				err = lk.Release(t.Context(), leases...)
			}
			done <- err
		}()
		synctest.Wait()
		const want = "waits for lock c, held by the backup"
		why, at := e.obstacle(t.Context(), requests, 0)
		if why != want || at != 2 {
			t.Fatalf("%q, of request %d", why, at)
		}
		lk.keys = nil
		if why, at = e.obstacle(t.Context(), requests, at); why != want || at != 2 || !slices.Equal(lk.keys, []string{"user/c"}) {
			t.Errorf("then %q, of request %d, tried %v", why, at, lk.keys)
		}
		if err := lk.Release(t.Context(), e.releases.pending...); err != nil || len(e.releases.pending) != 1 {
			t.Errorf("%d leases of the shared key to give back, %v", len(e.releases.pending), err)
		}
		if err := other.Release(t.Context(), held...); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// unnamed is a Locker that does not name holders.
type unnamed struct{ *locks.Locker }

func (unnamed) TryAcquire(_ context.Context, requests ...locks.Request) ([]locks.Attempt, error) {
	return []locks.Attempt{{Err: fmt.Errorf("%w: %s", locks.ErrBusy, requests[0].Key)}}, nil
}

// explained notes the reasons of tasks.
type explained struct {
	tasks
	reasons []string
}

func (e *explained) ExplainWaits(_ context.Context, _ string, reasons map[string]string) error {
	e.reasons = append(e.reasons, reasons["t"])
	return nil
}

// A task that is queued again after the lock service was away does not say any more that it is: also where no holder is named.
func TestQueuedAgain(t *testing.T) {
	for said, want := range map[string][]string{
		ledger.LocksAway:                     {"waits for lock a, in the queue of the lock service"},
		"waits for lock a, held by somebody": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			f, _ := fed(t)
			st := &explained{tasks: f.executor.store}
			f.executor.store, f.executor.jobLocks = st, unnamed{replicatest.LockerOf(t, memlock.New())}
			ctx, cancel := context.WithTimeout(t.Context(), 3*explainEvery)
			defer cancel()
			f.executor.explain(ctx, f.executor.member.Session(), jobs.Task{ID: "t", Reason: said}, []locks.Request{{Key: "user/a"}}, cancel)
			if !slices.Equal(st.reasons, want) {
				t.Errorf("%q became %q, want %q", said, st.reasons, want)
			}
		})
	}
}
