package work

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// stalled is a store whose claims have no answer.
type stalled struct{ tasks }

func (stalled) Claim(ctx context.Context, _ ledger.Claim) (ledger.Claimed, error) {
	<-ctx.Done()
	return ledger.Claimed{}, ctx.Err()
}

// While a claim has no answer, the leases of its tasks keep others out, who may not need the store: so they are given back after
// leasedCall.
func TestLeasesOfAClaimWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		mine, other := replicatest.LockerOf(t, service), replicatest.LockerOf(t, service)
		leases, err := mine.Acquire(t.Context(), locks.Request{Key: "a"})
		if err != nil {
			t.Fatal(err)
		}
		f, _ := fed(t)
		e := f.executor
		e.store, e.jobLocks, e.releases = stalled{e.store}, mine, newReleases(mine, e.register.running)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); e.releases.run(ctx) }()
		defer func() { stop(); <-done }()

		began := time.Now()
		go e.waits.claim(ctx, e.plan.Load(), e.member.Session(), jobs.Task{ID: "t", Pool: "p"}, []heldLock{{plan.Lock{}, leases[0], time.Second}}, 0)
		if _, err := other.Acquire(t.Context(), locks.Request{Key: "a"}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != leasedCall {
			t.Errorf("another had the key after %v, want %v", took, leasedCall)
		}
	})
}

// The claim after a try of locks is bounded in the same way; one without leases has longer.
func TestHowLongAClaimMayTake(t *testing.T) {
	with := tried{held: map[string][]heldLock{"t": {{}}}}
	if got, want := with.call(), leasedCall; got != want {
		t.Errorf("with leases: %v, want %v", got, want)
	}
	if got, want := (tried{held: map[string][]heldLock{}}).call(), claimCall; got != want {
		t.Errorf("without: %v, want %v", got, want)
	}
	if leasedCall >= claimCall {
		t.Error("a claim with leases is not bounded more strictly")
	}
}

// A Locker of the program that embeds the scheduler is used on after Run. What was held for attempts that have ended without an acknowledged
// result is given back then; what one holds that did not stop stays held.
func TestLeasesAfterTheEndOfTheLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		mine, other := replicatest.LockerOf(t, service), replicatest.LockerOf(t, service)
		reg := newRegister()
		r := newReleases(mine, reg.running)
		for _, key := range []string{"unrecorded", "running", "recorded"} {
			leases, err := mine.Acquire(t.Context(), locks.Request{Key: key})
			if err != nil {
				t.Fatal(err)
			}
			task := &jobs.Task{ID: key, Token: 1}
			r.keep(task, []heldLock{{plan.Lock{}, leases[0], time.Second}})
			reg.start(claimed{task: task})
		}
		reg.record(&jobs.Task{ID: "unrecorded", Token: 1})
		ctx, stop := context.WithCancel(t.Context())
		stop()
		r.recorded(&jobs.Task{ID: "recorded", Token: 1})
		r.run(ctx)
		for key, free := range map[string]bool{"unrecorded": true, "recorded": true, "running": false} {
			attempts, err := other.TryAcquire(t.Context(), locks.Request{Key: key})
			if err != nil || (attempts[0].Lease != nil) != free {
				t.Errorf("%s: %+v, %v; want it free: %t", key, attempts, err, free)
			}
		}
	})
}

// acknowledging is a store that acknowledges every result.
type acknowledging struct{ tasks }

func (acknowledging) Finish(_ context.Context, _ string, results []ledger.Result) ([]ledger.Finished, error) {
	return make([]ledger.Finished, len(results)), nil
}

// With the acknowledgement of the last result the replica may end: by then its leases are to be given back.
func TestLeasesAreGivenBackBeforeTheLastResultCounts(t *testing.T) {
	f, _ := fed(t)
	e := f.executor
	e.store = acknowledging{e.store}
	task := &jobs.Task{ID: "t", Pool: "p", Token: 1}
	e.releases.keep(task, []heldLock{{}})
	e.register.start(claimed{task: task})
	e.register.record(task)
	settled := e.register.allRecorded()
	e.releases.mu.Lock() // the recorder must wait here before it says that all is recorded
	written := make(chan error, 1)
	go func() {
		written <- e.recorder.write(t.Context(), []outcome{{session: "session", result: ledger.Result{TaskID: "t", Token: 1, Task: task}}})
	}()
	select {
	case <-settled:
		t.Error("all is recorded, and its leases are not given back yet")
	case <-time.After(100 * time.Millisecond):
	}
	e.releases.mu.Unlock()
	if err := <-written; err != nil {
		t.Error(err)
	}
	<-settled
}
