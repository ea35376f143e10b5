package scheduler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// A replica that drains releases its stripes at once, and not when its work has ended: other replicas decide them.
func TestADrainGivesItsStripesUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		other := replicatest.LockerOf(t, service)
		st := replicatest.NewPicky(nil)
		h := replicatest.NewBlocked(1)
		s, err := newOn(st, replicatest.LockerOf(t, service), jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h}}}, Options{ID: "a", DrainTimeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(3 * time.Second)
		if _, err := st.Enqueue(ctx, jobs.NewTask{Pool: "p"}); err != nil {
			t.Fatal(err)
		}
		s.Wake("p")
		<-h.Began
		free := func() bool {
			got, err := other.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: "sys/stripe/07"})
			return err == nil && got[0].Lease != nil
		}
		if free() {
			t.Error("its stripes are free before it drains")
		}
		cancel()
		time.Sleep(time.Second)
		if !free() {
			t.Error("its stripes are not free a second into the drain")
		}
		close(h.End)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
