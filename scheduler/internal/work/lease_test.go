package work

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// A task that has waited for a worker starts only if it still has its locks, and for longer than the last grace. Of a lock with
// on_lost continue it only has to have the lease.
func TestLocksLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		l := replicatest.LockerOf(t, service)
		leases, err := l.Acquire(t.Context(), locks.Request{Key: "a"}, locks.Request{Key: "b"})
		if err != nil {
			t.Fatal(err)
		}
		one := func(i int, goesOn bool) *attempt {
			return &attempt{locks: []heldLock{{plan.Lock{Continue: goesOn}, leases[i], time.Second}}}
		}
		check := func(when string, cancels, goesOn bool) {
			t.Helper()
			if got := one(0, false).locksLast(); got != cancels {
				t.Errorf("%s: %v", when, got)
			}
			if got := one(1, true).locksLast(); got != goesOn {
				t.Errorf("%s, with on_lost continue: %v", when, got)
			}
		}
		check("held", true, true)
		if !(&attempt{}).locksLast() {
			t.Error("without locks")
		}
		service.Stop()
		time.Sleep(time.Until(leases[0].Deadline()) - time.Second/2)
		check("before its end", false, true)
		time.Sleep(time.Second)
		check("lost", false, false)
	})
}

// bootError is how long a test may take: the boot-time clock goes on, while that of its bubble stands still.
const bootError = 500 * time.Millisecond

// With a lock, an attempt ends and is started by the end of its lease at the latest, whatever its session and its row allow; with
// on_lost continue these alone count.
func TestALeaseBoundsItsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, now := membership.NewClock(0), time.Now()
		c.Observe(boottime.Awake(), now)
		leases, err := replicatest.LockerOf(t, memlock.New()).Acquire(t.Context(), locks.Request{Key: "a"})
		if err != nil {
			t.Fatal(err)
		}
		lease := time.Until(leases[0].Deadline())
		for trust, want := range map[time.Duration]time.Duration{time.Minute: lease, lease / 2: lease / 2} {
			ses := &membership.Session{ID: "session", Trust: boottime.Awake().Add(trust)}
			for _, goesOn := range []bool{false, true} {
				a := &attempt{session: "session", mayRun: now.Add(time.Hour), locks: []heldLock{{plan.Lock{Continue: goesOn}, leases[0], time.Second}}}
				ends, startBy := []time.Duration{want, lease}, want
				if goesOn {
					ends, startBy = []time.Duration{trust, time.Hour}, trust
				}
				bounds, _ := a.bounds(ses, c)
				for i, b := range bounds {
					if got := b.Until(); (got - ends[i]).Abs() > bootError {
						t.Errorf("trust %v, continue %t: bound %d is in %v, want %v", trust, goesOn, i, got, ends[i])
					}
				}
				if got := a.startBy(ses).Until(); (got - startBy).Abs() > bootError {
					t.Errorf("trust %v, continue %t: started within %v, want %v", trust, goesOn, got, startBy)
				}
			}
		}
	})
}

// A command that was ended by its deadline has failed for its lock if that was not renewed, also when its lease has not ended yet; not if
// it would have gone on without the lock, or its lock still had time.
func TestEndedByTheDeadlineOfItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		leases, err := replicatest.LockerOf(t, service).Acquire(t.Context(), locks.Request{Key: "a"})
		if err != nil {
			t.Fatal(err)
		}
		check := func(when string, goesOn bool, want reason.Code) {
			t.Helper()
			a := &attempt{task: &jobs.Task{}, locks: []heldLock{{plan.Lock{Name: "a", Continue: goesOn}, leases[0], time.Second}}}
			a.work.Retries = jobs.Retries{Limit: 1}
			a.task.Attempt = 1
			r := a.result(fmt.Errorf("its deadline passed: %w", abort.ErrLost), nil, "")
			if r.Code != want || (want == reason.LockLost) != (r.Verdict == ledger.Again) {
				t.Errorf("%s, continue %t: %+v, want %s", when, goesOn, r, want)
			}
		}
		check("held", false, reason.OutcomeUnknown)
		service.Stop()
		time.Sleep(time.Until(leases[0].Deadline()) - 990*time.Millisecond)
		check("in the last grace", false, reason.LockLost)
		check("in the last grace", true, reason.OutcomeUnknown)
		time.Sleep(time.Second)
		check("lost", false, reason.LockLost)
		check("lost", true, reason.OutcomeUnknown)
	})
}
