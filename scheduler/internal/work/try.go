package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// JobLocks is the lock service of jobs and pools with locks; *locks.Locker is one.
type JobLocks interface {
	TryAcquire(ctx context.Context, requests ...locks.Request) ([]locks.Attempt, error)
	Acquire(ctx context.Context, requests ...locks.Request) ([]*locks.Lease, error)
	Release(ctx context.Context, leases ...*locks.Lease) error
	State() locks.State
}

// tryCall bounds one try: a claim waits for it.
const tryCall = 2 * time.Second

const (
	claimCall = 5 * time.Second // of the store
	// leasedCall bounds a claim of tasks whose leases are held: meanwhile others wait for them, who may not need the store.
	leasedCall = 2 * time.Second
)

// tryRounds is how many calls one try makes at most: tasks that share a key are tried one after the other.
const tryRounds = 16

// tried is what came of trying the locks of tasks, by their ids. A task that is in neither was not tried.
type tried struct {
	held map[string][]heldLock
	busy map[string]string // why
	took time.Duration     // the try, or the wait for the locks
}

// call is how long a claim of what was tried may take.
func (t tried) call() time.Duration {
	if len(t.held) > 0 {
		return leasedCall
	}
	return claimCall
}

// locking is Admission.Locks: whether this replica has the locks of a candidate. It is nil if nothing in p has locks.
func locking(p *plan.Plan, tried tried) func(ledger.Candidate) ledger.Locking {
	if !p.HasLocks() {
		return nil
	}
	return func(c ledger.Candidate) ledger.Locking {
		all, wait, err := p.Locks(c.Task)
		if err != nil {
			return ledger.Locking{State: ledger.LocksWrong, Reason: err.Error()}
		}
		if _, holds := tried.held[c.Task.ID]; holds || len(all) == 0 {
			return ledger.Locking{}
		}
		l := ledger.Locking{State: ledger.LocksWanted, Wait: wait}
		for _, lock := range all {
			l.Keys = append(l.Keys, lock.Request.Key)
		}
		if why, is := tried.busy[c.Task.ID]; is {
			l.State, l.Reason = ledger.LocksBusy, why
		}
		return l
	}
}

// wanted are the locks of a task that are to be tried.
type wanted struct {
	task  jobs.Task
	locks []plan.Lock
}

// try tries the locks that tasks have by p, in their order and without waiting. A task has all of its locks or none. A task is busy without a
// call if one of its keys was busy for a task before it.
//
//  1. ask for the keys of tasks that have no key in common, in one call
//  2. sort out what is held, and what is busy
//  3. go on with the others
//
// When the lock service does not answer, all locks are busy.
func (e *Executor) try(ctx context.Context, p *plan.Plan, tasks []jobs.Task) tried {
	out := tried{held: map[string][]heldLock{}, busy: map[string]string{}}
	busy := map[string]string{} // keys
	var rest []wanted
	for _, t := range tasks {
		if all, _, err := p.Locks(t); err == nil {
			rest = append(rest, wanted{t, all})
		}
	}
	for range tryRounds {
		batch := out.next(&rest, busy)
		if len(batch) == 0 || ctx.Err() != nil {
			return out
		}
		var requests []locks.Request
		for _, w := range batch {
			requests = append(requests, e.requests(w.task, w.locks)...)
		}
		attempts, err := e.jobLocks.TryAcquire(ctx, requests...)
		for _, w := range batch {
			if err != nil {
				out.busy[w.task.ID] = ledger.WaitsFor(w.locks[0].Name, "the lock service does not answer: "+err.Error())
				continue
			}
			e.sortOut(out, busy, w, attempts[:len(w.locks)])
			attempts = attempts[len(w.locks):]
		}
		if err != nil {
			for _, w := range rest {
				out.busy[w.task.ID] = out.busy[batch[0].task.ID]
			}
			return out
		}
	}
	return out
}

// next takes the tasks of the next call out of rest.
func (out tried) next(rest *[]wanted, busy map[string]string) (batch []wanted) {
	var left []wanted
	asked := map[string]bool{}
	for _, w := range *rest {
		var why string
		shares := false
		for _, l := range w.locks {
			why = cmp.Or(why, busy[l.Request.Key])
			shares = shares || asked[l.Request.Key]
		}
		for _, l := range w.locks { // also of what is left for later: what comes behind it waits
			asked[l.Request.Key] = true
		}
		switch {
		case why != "":
			out.busy[w.task.ID] = why
		case shares:
			left = append(left, w)
		default:
			batch = append(batch, w)
		}
	}
	*rest = left
	return batch
}

// sortOut notes what came of the try of one task.
func (e *Executor) sortOut(out tried, busy map[string]string, w wanted, attempts []locks.Attempt) {
	var held []heldLock
	why, elsewhere := "", false
	for i, a := range attempts {
		key := w.locks[i].Request.Key
		switch {
		case a.Lease != nil:
			held = append(held, e.hold(w.locks[i:i+1], []*locks.Lease{a.Lease})...)
			continue
		case a.Holder != nil:
			elsewhere = elsewhere || strings.HasPrefix(a.Holder.Meta, metaOf(w.task))
			busy[key] = ledger.WaitsFor(w.locks[i].Name, "held by "+nameOf(a.Holder))
		case errors.Is(a.Err, locks.ErrBusy): // its holder is not known
			busy[key] = ledger.WaitsFor(w.locks[i].Name, "for which others of this replica wait")
		default:
			busy[key] = ledger.WaitsFor(w.locks[i].Name, "the lock service does not answer: "+a.Err.Error())
		}
		why = cmp.Or(why, busy[key])
	}
	if why == "" {
		out.held[w.task.ID] = held
		return
	}
	e.releases.add(held)
	if !elsewhere { // else another replica has the leases, and is about to claim it
		out.busy[w.task.ID] = why
	}
}

// metaOf is how the Meta of the leases of a task's next attempt begins.
func metaOf(t jobs.Task) string { return fmt.Sprintf("task %s, attempt %d", t.ID, t.Attempt+1) }

// requests are those of the locks of a task.
func (e *Executor) requests(t jobs.Task, all []plan.Lock) []locks.Request {
	meta := metaOf(t)
	if t.Job != "" {
		meta += " of job " + t.Job
	} else {
		meta += " of pool " + t.Pool
	}
	requests := make([]locks.Request, len(all))
	for i, l := range all {
		requests[i] = l.Request
		requests[i].Meta = meta + " on " + e.opt.ID
	}
	return requests
}

// giveBack gives back the leases of tasks that were not claimed.
func (e *Executor) giveBack(held map[string][]heldLock, claimed []ledger.Started) {
	for id, of := range held {
		if !slices.ContainsFunc(claimed, func(t ledger.Started) bool { return t.ID == id }) {
			e.releases.add(of)
		}
	}
}

// claimLocked tries the locks of tasks that a claim left, and claims those whose leases it gets; the others wait from then on. It
// adds the result to got, and returns the leases by task. A claim without an answer has claimed nothing that starts: its leases are
// given back.
func (f *feeder) claimLocked(ctx context.Context, p *plan.Plan, got *ledger.Claimed, room int, claim func(int, tried) (ledger.Claimed, error)) map[string][]heldLock {
	e := f.executor
	tctx, cancel := context.WithTimeout(ctx, tryCall)
	began := time.Now()
	tried := e.try(tctx, p, got.Locked[:min(room, len(got.Locked))])
	tried.took = time.Since(began)
	cancel()
	if len(tried.held)+len(tried.busy) == 0 {
		return nil
	}
	more, err := claim(room, tried)
	if err != nil {
		e.giveBack(tried.held, nil)
		e.member.StoreFailed(err)
		return nil
	}
	got.Tasks, got.Waiting, got.Failed = append(got.Tasks, more.Tasks...), append(got.Waiting, more.Waiting...), append(got.Failed, more.Failed...)
	got.Foreign, got.More = append(got.Foreign, more.Foreign...), got.More || more.More
	got.Limited, got.Left, got.OpensIn = more.Limited, more.Left, more.OpensIn
	e.giveBack(tried.held, more.Tasks)
	return tried.held
}

// sayFailed logs tasks that ended since the keys of their locks cannot be made.
func (f *feeder) sayFailed(failed []jobs.Task) {
	e := f.executor
	for _, t := range failed {
		e.log.Warn("a task has failed: the key of a lock cannot be made of its payload", "task", t.ID, "job", t.Job, "pool", t.Pool, "reason", t.Reason)
		e.on.Recorded(t.Job, t.State)
	}
}
