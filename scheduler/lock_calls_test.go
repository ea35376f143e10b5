package scheduler_test

import (
	"context"
	"fmt"
	"strings"
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

// asking is a lock service that counts its calls about stripes.
type asking struct {
	scheduler.Locks
	calls, granted atomic.Int64
}

func (a *asking) TryAcquire(ctx context.Context, requests ...locks.Request) ([]locks.Attempt, error) {
	got, err := a.Locks.TryAcquire(ctx, requests...)
	if strings.HasPrefix(requests[0].Key, "sys/stripe/") {
		for _, attempt := range got {
			if attempt.Lease != nil {
				a.granted.Add(1)
			}
		}
		a.calls.Add(1)
	}
	return got, err
}

func TestATriggerCostsNoLockCall(t *testing.T) {
	t.Parallel()
	ran := &starts{}
	set := jobs.Set{Jobs: map[string]jobs.Job{}}
	for n := range 10 {
		set.Jobs[fmt.Sprint("job-", n)] = jobs.Job{Schedule: "* * * * * *", Handler: ran, Concurrency: jobs.Allow}
	}
	lk := &asking{Locks: locker(t, memlock.New())}
	// Heartbeats and reads of the peers go on all the time.
	start(t, sqlite(t).open(t), lk, set, scheduler.Options{ID: "a", SessionTTL: 2 * time.Second})
	await.Until(t, "every stripe is held", func() bool { return lk.granted.Load() == ledger.Stripes })
	calls, had := lk.calls.Load(), ran.count()
	await.Until(t, "30 triggers ran", func() bool { return ran.count() >= had+30 })
	if more := lk.calls.Load() - calls; more != 0 {
		t.Errorf("30 triggers cost %d calls for stripes", more)
	}
}

// With when_down: wait nothing is decided while the lock service is away, and all of it afterwards.
func TestTriggersWaitForTheLockService(t *testing.T) {
	t.Parallel()
	service := memlock.New()
	lk, err := locks.New(service, locks.Options{TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lk.Close(context.Background()) })
	st := sqlite(t).open(t)
	ran := &starts{}
	set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "* * * * * *", Handler: ran, Concurrency: jobs.Allow}}}
	r := start(t, st, lk, set, scheduler.Options{ID: "a", WhenDown: scheduler.DownWait})
	await.Until(t, "it works", func() bool { return ran.count() >= 1 })
	service.Stop()
	await.Until(t, "readiness says so", func() bool { return !r.Health()[1].Ready })
	had := len(ledgerOf(t, st, "j"))
	since := time.Now()
	await.Until(t, "four due times have passed", func() bool { return time.Since(since) > 4*time.Second })
	if more := len(ledgerOf(t, st, "j")) - had; more > 1 { // one may have been under way
		t.Errorf("%d due times were decided although when_down is wait", more)
	}
	service.Start()
	await.Until(t, "it goes on and made up for all", func() bool { return r.Health()[1].Ready && ran.count() >= had+5 })
	covered(t, ledgerOf(t, st, "j"))
	ran.onlyOnce(t)
}

// A lock service that hangs from the start on is noticed before anything starts.
func TestNothingStartsBeforeTheLockServiceWasSeen(t *testing.T) {
	t.Parallel()
	lk := &hanging{Locks: locker(t, memlock.New())}
	lk.hangs.Store(true)
	st := sqlite(t).open(t)
	ran := &starts{}
	set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "* * * * * *", Handler: ran, Concurrency: jobs.Allow}}}
	r := start(t, st, lk, set, scheduler.Options{ID: "a", WhenDown: scheduler.DownWait})
	await.Until(t, "readiness says so", func() bool { return strings.Contains(r.Health()[1].Detail, "nothing starts until it answers") })
	if rows := ledgerOf(t, st, "j"); len(rows) > 0 || ran.count() > 0 {
		t.Errorf("%d due times were decided before", len(rows))
	}
	lk.hangs.Store(false)
	await.Until(t, "it works", func() bool { return r.Health()[1].Ready && ran.count() >= 1 })
}
