package work

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// A task that has waited for a worker starts only if it still has its locks, for longer than the last grace; those that may be lost it only has
// to have.
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
