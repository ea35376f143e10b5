package work

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// waiter waits for the leases of one task.
//
//	queued ──▶ granted ──▶ claimed, on a free worker or for the next one
//	   │          └──▶ left: not claimed, its leases are given back
//	   └──▶ left: not first any more, no work may begin, or the lock service is away
//
// Any replica may queue a task that was left.
type waiter struct {
	pool    string
	began   time.Time
	session string
	cancel  context.CancelFunc
	done    chan struct{} // closed when it has ended
}

// start starts the waiter of a task that this replica has queued.
func (w *waits) start(ctx context.Context, ses *membership.Session, t jobs.Task) {
	ctx, cancel := context.WithCancel(ctx)
	one := &waiter{pool: t.Pool, began: time.Now(), session: ses.ID, cancel: cancel, done: make(chan struct{})}
	w.waiting[t.ID] = one
	go func() {
		defer wake.Send(w.wake) // the next one may be first now
		defer close(one.done)
		defer cancel()
		if !w.await(ctx, ses, t) {
			w.mu.Lock()
			w.notUntil[t.ID] = time.Now().Add(waitsAgain)
			w.mu.Unlock()
			lctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), waitsCall)
			defer cancel()
			if err := w.executor.store.LeaveWaits(lctx, ses.ID, []string{t.ID}); err != nil {
				w.executor.member.StoreFailed(err) // it stays queued until this replica asks again, or its session ends
			}
		}
	}()
}

// await waits for the leases of a task and claims it; false if it did not become running here.
func (w *waits) await(ctx context.Context, ses *membership.Session, t jobs.Task) bool {
	e := w.executor
	p := e.plan.Load()
	all, _, err := p.Locks(t)
	if err != nil || len(all) == 0 { // the definition is another one by now
		return w.claim(ctx, p, ses, t, nil, 0)
	}
	requests := e.requests(t, all)
	asked := time.Now()
	explaining, stop := context.WithCancel(ctx)
	var explainer sync.WaitGroup
	explainer.Go(func() { e.explain(explaining, ses, t, requests, stop) })
	leases, err := e.jobLocks.Acquire(explaining, requests...)
	stop()
	explainer.Wait()
	if err != nil {
		return false
	}
	held := e.hold(all, leases)
	if now := e.plan.Load(); now != p { // it begins under the definition by which it is claimed
		if other, _, err := now.Locks(t); err != nil || !slices.Equal(all, other) {
			e.releases.add(held)
			return false
		}
		p = now
	}
	return w.claim(ctx, p, ses, t, held, time.Since(asked))
}

// claim claims a task whose leases are there, for which it has waited for so long, and starts it. Without a free worker the task is queued for the
// next one, behind what the feeder has claimed ahead. The leases of one that was not claimed are given back.
func (w *waits) claim(ctx context.Context, p *plan.Plan, ses *membership.Session, t jobs.Task, held []heldLock, waited time.Duration) bool {
	e, f := w.executor, w.executor.feeder(t.Pool)
	if ctx.Err() != nil || !e.MayBegin() {
		e.releases.add(held)
		return false
	}
	worker := e.slots.take(t.Pool, 1)
	if worker == 0 && (e.shortages.closed(t.Pool) || f.crowded()) {
		e.releases.add(held)
		return false
	}
	defer e.register.claim()()
	got, err := w.claimNow(ctx, p, ses, t, held, waited)
	if err != nil {
		e.member.StoreFailed(err)
	}
	f.sayFailed(got.Failed)
	if len(got.Tasks) == 0 {
		e.releases.add(held)
		e.slots.give(t.Pool, worker)
		return len(got.Failed) > 0
	}
	mine := claimed{task: got.Tasks[0].Task, session: ses.ID, until: got.Tasks[0].Until, since: time.Now(), locks: held, by: p}
	e.releases.keep(mine.task, held)
	if worker == 1 {
		e.start(ctx, mine)
		return true
	}
	e.register.queue(mine)
	f.startQueued(ctx)
	return true
}

// claimNow is the claim of one task that waits.
func (w *waits) claimNow(ctx context.Context, p *plan.Plan, ses *membership.Session, t jobs.Task, held []heldLock, waited time.Duration) (ledger.Claimed, error) {
	e, f := w.executor, w.executor.feeder(t.Pool)
	asked := f.forgot() // first: what is learned under an older plan is left
	under := f.governedBy(p)
	if under.Hash == "" {
		return ledger.Claimed{}, nil // the plan is another one since, or the pool is gone
	}
	var mine tried
	if held != nil {
		mine.held = map[string][]heldLock{t.ID: held}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mine.call())
	defer cancel()
	began := time.Now()
	got, err := e.store.Claim(ctx, ledger.Claim{
		Admission: e.admission(p, ses, map[string]plan.Governing{t.Pool: under}, map[string]int{t.Pool: 1}, mine),
		Pool:      t.Pool, ID: uuid.NewString(), Waiting: []string{t.ID}, Now: e.clock.Check, LockTook: waited,
	})
	e.metrics.Claimed(jobs.ClaimTry{Pool: t.Pool, LockBackend: e.locks.Name(), Result: got.Result(err), Tasks: len(got.Tasks), Took: time.Since(began)})
	f.skip(asked, got.Foreign)
	return got, err
}
