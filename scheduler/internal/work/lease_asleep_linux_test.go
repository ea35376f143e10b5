package work

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// The time that the machine sleeps is used up, of a lease and of an attempt that holds it. While a test runs, the clock of its bubble
// stands still and the boot-time clock does not: the same happens to the monotonic clock in a suspend.
func TestALeaseIsUsedUpAsleep(t *testing.T) {
	const slept = 50 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		leases, err := replicatest.LockerOf(t, memlock.New()).Acquire(t.Context(), locks.Request{Key: "a"}, locks.Request{Key: "b", MaxHold: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for began := boottime.Clock(false); boottime.Clock(false) < began+slept; { // the machine sleeps
		}
		for _, lease := range leases {
			deadline := time.Until(lease.Deadline())
			if left := lease.Left(); left <= 0 || left > deadline-slept {
				t.Errorf("%s: %v are left, and %v slept of %v", lease.Key(), left, slept, deadline)
			}
			held := heldLock{Lock: plan.Lock{Name: lease.Key()}, lease: lease}
			if left := held.end().Until(); left <= 0 || left > deadline-slept {
				t.Errorf("%s: the attempt may run for %v, and %v slept of %v", lease.Key(), left, slept, deadline)
			}
		}
	})
}
